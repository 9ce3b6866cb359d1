"""Decompress zstd texts of agent programs: large events of OpenClaw, and old session files of Codex."""


def unpack(data: bytes, largest: int) -> bytes | None:
    """Return the decompressed bytes; None if they are damaged or longer than `largest` bytes."""
    import zstandard  # imported late, because few transcripts are compressed

    try:
        with zstandard.ZstdDecompressor(max_window_size=largest).stream_reader(data) as reader:
            content: bytes = reader.read(largest + 1)
    except (zstandard.ZstdError, MemoryError):
        return None
    return content if len(content) <= largest else None
