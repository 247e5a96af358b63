"""Arrays that say they are in GPU memory, for tests without a GPU: their memory is NumPy's."""

from __future__ import annotations

import ctypes
from typing import Any, ClassVar

import numpy as np

HOST, CUDA, PINNED, MANAGED = 1, 2, 3, 13
"""Types of devices in DLPack."""
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}


class CudaArray:
    """An array of a library that has `__cuda_array_interface__` alone, such as Numba's."""

    def __init__(self, array: Any, **fields: Any) -> None:
        self.array = np.asarray(array)
        self.__cuda_array_interface__ = {
            "shape": self.array.shape,
            "typestr": self.array.dtype.str,
            "data": (self.array.ctypes.data, False),
            "version": 3,
            **fields,
        }


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


def _fill(tensor: _Tensor, array: Any, device: tuple[int, int]) -> list[Any]:
    """Describe the array; what has to live as long as the description."""
    lengths = (ctypes.c_int64 * array.ndim)(*array.shape)
    strides = (ctypes.c_int64 * array.ndim)(*(s // array.itemsize for s in array.strides))
    tensor.data = array.ctypes.data
    tensor.device_type, tensor.device = device
    tensor.ndim = array.ndim
    tensor.code, tensor.bits, tensor.lanes = _CODES[array.dtype.kind], array.itemsize * 8, 1
    tensor.shape = ctypes.cast(lengths, ctypes.POINTER(ctypes.c_int64))
    tensor.strides = ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64))
    return [lengths, strides]


def capsule_of(pointer: int, name: bytes) -> Any:
    """A capsule; the name has to live as long as it."""
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(pointer, name, None)


_VERSIONED = b"dltensor_versioned"


# A capsule has no deleter here, and is valid as long as what it describes: for ever.
_KEPT: list[Any] = []


class DlpackArray:
    """An array with DLPack alone, such as JAX's; `streams` lists what it was asked to wait on."""

    def __init__(
        self, array: Any, device: tuple[int, int] = (CUDA, 0), *, is_read_only: bool = False
    ) -> None:
        self.array = np.asarray(array)
        self.device = device
        self.streams: list[Any] = []
        self._described = _Versioned(major=1, flags=int(is_read_only))
        _KEPT.append(
            [self.array, self._described, _fill(self._described.tensor, self.array, device)]
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(
        self, *, stream: Any = "none asked for", max_version: tuple[int, int] | None = None
    ) -> Any:
        assert max_version is not None
        self.streams.append(stream)
        return capsule_of(ctypes.addressof(self._described), _VERSIONED)


_FROM_OBJECT = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.POINTER(_Tensor))
_CURRENT_STREAM = ctypes.PYFUNCTYPE(
    ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p)
)


class _Exchange(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("older", ctypes.c_void_p),
        ("allocate", ctypes.c_void_p),
        ("managed_from_object", ctypes.c_void_p),
        ("object_from_managed", ctypes.c_void_p),
        ("from_object", _FROM_OBJECT),
        ("current_stream", _CURRENT_STREAM),
    )


class ExchangeArray:
    """An array whose class has the C interface of DLPack, such as PyTorch's."""

    current_streams: ClassVar[dict[int, int]] = {}
    """By device."""
    __dlpack_c_exchange_api__: ClassVar[Any]

    def __init__(self, array: Any, device: tuple[int, int] = (CUDA, 0)) -> None:
        self.array = np.asarray(array)
        self.device = device
        self._parts: list[Any] = []

    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("the C interface is the shorter way")


def _from_object(array: ExchangeArray, tensor: Any) -> int:
    array._parts = _fill(tensor.contents, array.array, array.device)
    tensor.contents.byte_offset = 0
    return 0


def _current_stream(_type: int, device: int, stream: Any) -> int:
    stream[0] = ExchangeArray.current_streams.get(device, 0)
    return 0


_EXCHANGE = _Exchange(
    major=1,
    minor=3,
    from_object=_FROM_OBJECT(_from_object),
    current_stream=_CURRENT_STREAM(_current_stream),
)
_EXCHANGE_NAME = b"dlpack_exchange_api"
ExchangeArray.__dlpack_c_exchange_api__ = capsule_of(ctypes.addressof(_EXCHANGE), _EXCHANGE_NAME)
