#!/bin/sh
# A Chromium for the tests in a browser: the one that is there, or Debian's, where it may be
# installed (as root, which is how containers run). Without one those tests are skipped, loudly;
# under CI=true they fail.
[ -n "$BROWSER_PATH" ] && [ -x "$BROWSER_PATH" ] && exit 0
for name in chromium chromium-browser google-chrome google-chrome-stable chrome; do
    command -v "$name" > /dev/null && exit 0
done
if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "no Chromium here: installing Debian's"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq > /dev/null &&
        apt-get install -y -qq --no-install-recommends chromium fonts-liberation > /dev/null &&
        exit 0
fi
echo "NOTICE: there is no Chromium, and none could be installed: the tests in a browser are skipped." >&2
echo "        Install it (Debian, Ubuntu: apt install chromium), or set BROWSER_PATH to one." >&2
