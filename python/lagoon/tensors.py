"""Arrays of numpy as tensors of liblagoon: what the library reads, what it writes, and what is refused."""

import collections.abc
import ctypes

import numpy as np

from lagoon.liblagoon import BFLOAT16, DTYPES, STRING, STRING_DTYPE, Failed, Tensor


class TensorInfo:
    """An input or output of a model. `shape`: a dim of -1 is open; None: any rank fits."""

    def __init__(self, info):
        self.name = info.name.decode()
        self.type = info.type
        self.dtype = DTYPES[info.type]
        self.shape = tuple(info.dims[i] for i in range(info.rank)) if info.shape_known else None

    def __repr__(self):
        return f"TensorInfo({self.name!r}, {self.dtype}, {self.shape})"


def named(what, arrays):
    if not isinstance(arrays, collections.abc.Mapping):
        raise Failed("invalid argument", f"{what} is a {type(arrays).__name__}: it is {{name: array}}")
    return arrays


def _check_place(name, array):
    """Arrays of other libraries may lie in memory of a GPU."""
    if isinstance(array, np.ndarray):
        return
    cpu = 1  # DLPack's number
    if hasattr(array, "__cuda_array_interface__") or (hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] != cpu):
        raise Failed("invalid argument", f"tensor '{name}' lies in memory of another device: copy it to the CPU first")


def input_array(name, given, info, copies):
    """The array that the library reads: it has the model's type, and is C-contiguous and aligned. `copies`: it may be a copy."""
    def refuse(what):
        raise Failed("invalid argument", f"input '{name}' {what}")

    if given is None:
        refuse(f"is None: the model takes an array of {_takes(info)}")
    if isinstance(given, np.ma.MaskedArray):
        refuse("is a masked array: give array.filled(value)")
    _check_place(name, given)
    try:
        array = np.asarray(given)
    except Exception as failed:
        raise Failed("invalid argument", f"input '{name}' is a {type(given).__name__}, not an array: {failed}") from failed
    if info.type == STRING:
        if array.dtype.kind not in "OSU":
            refuse(f"has dtype {array.dtype}, the model takes {_takes(info)}")
        return array
    if array.dtype != info.dtype:
        refuse(f"has dtype {array.dtype}, the model takes {_takes(info)}{_conversion(array, info)}")
    if not copies and not isinstance(given, np.ndarray):
        refuse(f"is a {type(given).__name__}, which a prepared run would copy: make an array first, with np.array(), and write to it")
    if array.flags.c_contiguous and array.flags.aligned:
        return array
    if not copies:
        refuse("is not C-contiguous and aligned, so that a prepared run would copy it: make x = array.copy(order='C') and write to x")
    return array.copy(order="C")


def _takes(info):
    return {STRING: "strings (str or bytes)", BFLOAT16: "bfloat16, as uint16 with its bits"}.get(info.type, info.dtype.name)


def _conversion(array, info):
    if array.dtype.kind not in "biuf" or info.type == BFLOAT16:
        return ""
    return f": convert it with np.asarray(x).astype('{info.dtype.name}')"


def output_array(name, given, info):
    """The array that the library writes: the caller's own, never a copy."""
    _check_place(name, given)
    if info.type == STRING:
        raise Failed("invalid argument", f"output '{name}' has strings: the library makes its array, so leave it out of `outputs`")
    if not isinstance(given, np.ndarray):
        wrong = f"a {type(given).__name__}, not an array"
    elif isinstance(given, np.ma.MaskedArray):
        wrong = "a masked array"
    else:
        flags = given.flags
        faults = {"not C-contiguous": not flags.c_contiguous, "not aligned to its elements": not flags.aligned,
                  "read-only": not flags.writeable, f"of {given.dtype}": given.dtype != info.dtype}
        wrong = ", ".join(what for what, found in faults.items() if found)
    if wrong:
        raise Failed("invalid argument", f"output '{name}': the array must be C-contiguous, aligned and writeable, of {info.dtype}; "
                     f"it is {wrong}")
    return given


def tensor_of(array, number):
    """For the library, which uses the array's own memory."""
    dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    return Tensor(type=number, rank=array.ndim, dims=dims, data=array.ctypes.data, bytes=array.nbytes)


def as_tensor(array, info):
    """What input_array() has made, for the library, and what must stay alive while it is bound."""
    if info.type != STRING:
        return tensor_of(array, info.type), array
    buffers, table = _as_strings(array, info.name)
    tensor = tensor_of(table.reshape(array.shape), STRING)
    return tensor, (buffers, table)


def _as_strings(array, name):
    texts = []
    for text in array.ravel().tolist():
        if not isinstance(text, (str, bytes)):
            raise Failed("invalid argument", f"input '{name}' has an element {text!r}: the model takes strings (str or bytes)")
        try:
            texts.append(text if isinstance(text, bytes) else text.encode())
        except UnicodeEncodeError as failed:
            raise Failed("invalid argument", f"input '{name}' has an element {text!r}: {failed}") from failed
    buffers = [ctypes.create_string_buffer(text, len(text)) if text else ctypes.create_string_buffer(1) for text in texts]
    table = np.array([(ctypes.addressof(buffer), len(text)) for buffer, text in zip(buffers, texts)], dtype=STRING_DTYPE)
    return buffers, table
