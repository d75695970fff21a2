"""``python -m tools.chaos [PART ...] [--minutes M]``: go on with the campaign."""

from __future__ import annotations

import argparse
import signal
import time
from pathlib import Path
from typing import Any

from tools.chaos import campaign
from tools.chaos.campaign import NAMES, Book, part


def main() -> int:
    """Try rounds of the parts in turn; returns 1 where one of these found a fault."""
    parser = argparse.ArgumentParser(prog="python -m tools.chaos", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(NAMES)}; all")
    parser.add_argument("--minutes", type=float, help="stop then; by default when all is tried")
    parser.add_argument("--rounds", type=int, help="of each part; by default those of the whole")
    parser.add_argument("--seed", type=int, default=0, help="another one makes other rounds")
    parser.add_argument("--round", type=int, help="try this one again, and note nothing")
    parser.add_argument("--small", action="store_true", help="with --round: as in the tests")
    parser.add_argument("--results", type=Path, default=campaign.RESULTS, help="where they lie")
    parser.add_argument("--anew", action="store_true", help="forget what was found so far")
    parser.add_argument("--page", action="store_true", help="only write what was found to the page")
    options = parser.parse_args()
    for name in set(options.parts) - set(NAMES):
        parser.error(f"no part {name!r}; there are {', '.join(NAMES)}")
    names = options.parts or list(NAMES)
    if options.page:
        from tools.chaos import page

        page.write(options.results)
        return 0
    if options.round is not None:
        if len(options.parts) != 1:
            parser.error("--round needs the one part that it is of")
        number, seed = options.round, options.seed
        tally = campaign.try_round(names[0], number, seed, small=options.small)
        _tell(names[0], options.seed, vars(tally) | {"round": options.round})
        return bool(tally.faults)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the round is broken off in order
    wholes = {name: options.rounds or part(name).rounds for name in names}
    books = [Book(name, options.results, options.seed, anew=options.anew) for name in names]
    until = time.monotonic() + 60 * (options.minutes or 1e9)
    faults = 0
    while books and time.monotonic() < until:
        # the one that is furthest from being whole
        book = min(books, key=lambda book: book.rounds / wholes[book.name])
        if book.rounds >= wholes[book.name]:
            break
        line = book.try_next()
        faults += len(line["faults"])
        _tell(book.name, options.seed, line, f"/{wholes[book.name]}, {line['seconds']:g} s")
        if line["skipped"]:
            books.remove(book)
    return 1 if faults else 0


def _tell(name: str, seed: int, line: dict[str, Any], of: str = "") -> None:
    """What a round found, and how to try it again."""
    counts = ", ".join(f"{many:,} {what}" for what, many in sorted(line["counts"].items()))
    found = f"skipped: {line['skipped']}" if line["skipped"] else counts
    print(f"{name} {line['round']}{of}: {found}", flush=True)
    for kind, text in line["faults"]:
        print(f"  FAULT, {kind}: {text}", flush=True)
    if line["faults"]:
        again = f"python -m tools.chaos {name} --round {line['round']}"
        print(f"  again: {again}{f' --seed {seed}' if seed else ''}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
