"""The findings of a checker: distinct sentences, with the section of the standard."""

from typing import Final, Protocol

_MOST: Final = 200  # one fault of a server repeats with every playlist


class Report(Protocol):
    """Adds a finding: what is wrong, and the section of draft-pantos-hls-rfc8216bis."""

    def __call__(self, what: str, section: str, /) -> None: ...


class Findings:
    """The findings of one presentation, in order."""

    def __init__(self) -> None:
        self.sentences: list[str] = []

    def about(self, subject: str) -> Report:
        """Return a `Report` whose sentences begin with a subject."""

        def report(what: str, section: str) -> None:
            sentence = f"{subject}: {what} ({section})"
            if sentence not in self.sentences and len(self.sentences) < _MOST:
                self.sentences.append(sentence)

        return report
