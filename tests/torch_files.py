"""What the comparisons of weights share (torch_names.py, torch_gpt2.py): files of safetensors, and runs of gradsum."""
import json, os, struct, subprocess, sys

import numpy as np


def save_tensors(path, tensors, kind="F32"):
    """Tensors by name, which are of f32 or i64. BF16: the upper half of each f32."""
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for k, v in tensors.items():
        numbers = v.contiguous().numpy()
        numbers = (numbers.view(np.uint32) >> 16).astype(np.uint16) if kind == "BF16" else numbers
        bytes_of = numbers.tobytes()
        header[k] = {"dtype": "I64" if numbers.dtype == np.int64 else kind, "shape": list(v.shape),
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
