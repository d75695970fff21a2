"""What was said is not said again."""

from __future__ import annotations

from acetune.core.say_once import SayOnce


def test_each_text_is_said_once() -> None:
    said: list[str] = []
    once = SayOnce(said.append)
    for text in ("a", "b", "a", ""):
        once(text)
    assert said == ["a", "b", ""]


def test_of_several_texts_about_the_same_the_first_is_said() -> None:
    said: list[str] = []
    once = SayOnce(said.append)
    once("trial 1 failed", about=0)
    once("trial 2 failed", about=0)
    once("trial 3 failed", about=1)
    assert said == ["trial 1 failed", "trial 3 failed"]
