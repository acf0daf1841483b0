"""Shared by the comparisons of weights: safetensors files, and runs of gradsum."""
import json, os, struct, subprocess, sys

import numpy as np
import torch

KINDS = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def save_tensors(path, tensors, metadata={"format": "pt"}):
    """Tensors by name, each in its type. No metadata: None."""
    header, data = {"__metadata__": metadata} if metadata else {}, b""
    for k, v in tensors.items():
        numbers = v.detach().contiguous()
        bytes_of = (numbers.view(torch.int16) if v.element_size() == 2 else numbers).numpy().tobytes()
        header[k] = {"dtype": KINDS[v.dtype], "shape": list(v.shape),
                     "data_offsets": [len(data), len(data) + len(bytes_of)]}
        data += bytes_of
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def load_tensors(path):
    with open(path, "rb") as f:
        length = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(length)), f.read()
    header.pop("__metadata__")
    return {k: np.frombuffer(data[v["data_offsets"][0]:v["data_offsets"][1]], np.float32).reshape(v["shape"])
            for k, v in header.items()}


def gradsum(program, *words):
    r = subprocess.run([program, *words], capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit("%s: %s: %s" % (os.path.basename(sys.argv[0]), " ".join(words), r.stderr))
