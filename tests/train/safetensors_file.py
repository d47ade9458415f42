"""The safetensors format, by Python's standard library alone."""

import json
import struct


def read(path):
    """Metadata, and (dtype, shape, bytes) of each tensor by name."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    return metadata, {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
                      for name, entry in header.items()}


def write(path, tensors, metadata=None):
    """Of what read() gives."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, elements) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(elements)]}
        data += elements
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
