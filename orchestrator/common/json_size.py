"""The number of values in a JSON message, before it is decoded. A decoded value takes up to 100 times its bytes."""


class JsonSize:
    """Counts what a message has, piece by piece.

    Attributes:
        brackets: The lists and objects.
        commas: The commas outside of texts.
        quotes: The quotes of texts.
    """

    def __init__(self) -> None:
        self.brackets = 0
        self.commas = 0
        self.quotes = 0
        self._begun = b""  # A backslash that escapes the first byte of the next piece.

    def add(self, piece: bytes) -> None:
        """Count a piece of the message."""
        piece = self._begun + piece
        backslashes = len(piece) - len(piece.rstrip(b"\\"))
        self._begun = b"\\" * (backslashes % 2)
        whole = piece.removesuffix(self._begun)
        without_escapes = whole.replace(rb"\\", b"").replace(rb"\"", b"")
        parts = without_escapes.split(b'"')
        outside_of_texts = b"".join(parts[self.quotes % 2 :: 2])
        self.quotes += len(parts) - 1
        self.brackets += outside_of_texts.count(b"[") + outside_of_texts.count(b"{")
        self.commas += outside_of_texts.count(b",")
