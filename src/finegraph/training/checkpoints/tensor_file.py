"""Tensors as a safetensors file, written and checked in one pass.

The bytes of each tensor are written and hashed without a copy, so saving needs no second copy of a network; only a
tensor that is not contiguous, or not in main memory, is copied, one at a time. Reading takes one buffer of the size of
the file: it is checked first, and the tensors are views of what was checked. Values and types come back bit for bit;
strides do not, tensors come back contiguous.

The form is that of safetensors (`files/tensor_frame.py`). The widest types come first, so that every tensor is aligned.
Cost: linear, one read or write of the bytes and their SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from jaxtyping import Shaped
from torch import Tensor

from finegraph.errors import InputError
from finegraph.files.durable import MAX_WRITE, write_all
from finegraph.files.tensor_frame import RESERVED, TensorEntry, frame_bytes, read_frame

TYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The types of safetensors, by the names they have in a file."""
_NAMES = {dtype: name for name, dtype in TYPES.items()}


class TensorWriter:
    """A safetensors file that is about to be written; its size is known beforehand.

    Args:
        tensors: what to write, by name. They must not change until it is written.

    Raises:
        InputError: something is no tensor that such a file can hold.
    """

    def __init__(self, tensors: Mapping[str, Shaped[Tensor, " ..."]]) -> None:
        for name, tensor in tensors.items():
            _check_tensor(name, tensor)
        self._in_order = sorted(tensors.items(), key=lambda item: -item[1].dtype.itemsize)
        places: dict[str, tuple[int, int]] = {}
        end = 0
        for name, tensor in self._in_order:
            places[name] = (end, end := end + tensor.numel() * tensor.dtype.itemsize)
        self._header = frame_bytes(
            {
                name: TensorEntry(_NAMES[tensor.dtype], tuple(tensor.shape), *places[name])
                for name, tensor in tensors.items()  # so that they come back in the order they were given
            }
        )
        self.size = len(self._header) + end

    def write(self, handle: int) -> str:
        """Write all to a file.

        Returns:
            The SHA-256 of the bytes written.
        """
        digest = hashlib.sha256(self._header)
        write_all(handle, self._header)
        for _, tensor in self._in_order:
            data = _bytes_of(tensor)
            for start in range(0, len(data), MAX_WRITE):
                part = data[start : start + MAX_WRITE]
                digest.update(part)
                write_all(handle, part)
        return digest.hexdigest()


def parse_tensors(buffer: Shaped[Tensor, " item"]) -> dict[str, Shaped[Tensor, " ..."]]:
    """The tensors in the bytes of a safetensors file, as views of these bytes.

    Args:
        buffer: the file, as a tensor of bytes.

    Raises:
        ValueError: the bytes are no such file.
    """
    entries, _, start = read_frame(buffer.numpy().data)
    return {name: _view(buffer[start + entry.start : start + entry.end], entry) for name, entry in entries.items()}


def _check_tensor(name: object, tensor: object) -> None:
    """Refuse what cannot be written, before anything is."""
    if not isinstance(name, str) or name == RESERVED:
        raise InputError(f"expected the name of a tensor, got {name!r}; choose another name")
    if not isinstance(tensor, Tensor):
        raise InputError(f"{name}: expected a tensor, got a {type(tensor).__name__}")
    if tensor.layout != torch.strided or tensor.is_meta or tensor.dtype not in _NAMES:
        kind = "a tensor without values" if tensor.is_meta else f"{tensor.dtype} with layout {tensor.layout}"
        raise InputError(f"{name}: expected a dense tensor of a plain type, got {kind}; make it a dense one first")
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise InputError(f"expected a name that is text, got {name!r}; choose another name") from None


def _bytes_of(tensor: Tensor) -> memoryview:
    """The bytes of a tensor; not copied if they are contiguous."""
    if not tensor.numel():
        return memoryview(b"")  # one of no rows may have any strides
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    return plain.reshape(-1).view(torch.uint8).numpy().data


def _view(part: Tensor, entry: TensorEntry) -> Tensor:
    """The tensor of these bytes."""
    dtype = TYPES[entry.dtype]
    if part.storage_offset() % dtype.itemsize:
        part = part.clone()  # a file from elsewhere may not be aligned
    return part.view(dtype).view(entry.shape)
