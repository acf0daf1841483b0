"""bench_jpeg.py make DIR: 64 JPEGs of 224 x 224, quality 90, whose spectrum falls as that of photographs.
bench_jpeg.py version: of Pillow.
bench_jpeg.py measure FILE ...: pictures a second that Pillow decodes on one core, by user CPU time, as bench_jpeg.c.

The pictures are the same each time. Pillow-SIMD calls itself Pillow, and its version ends in .postN.
"""
import io, resource, sys
from PIL import Image


def make(folder):
    import numpy as np
    rng = np.random.default_rng(3)
    f = np.fft.fftfreq(224)
    r = np.hypot(*np.meshgrid(f, f))
    r[0, 0] = 1
    falls = lambda by: np.real(np.fft.ifft2(np.fft.fft2(rng.normal(size=(224, 224))) / r**by))
    for i in range(64):
        grey = falls(1.2)
        planes = [grey + 0.35 * falls(1.4) for _ in range(3)]
        x = np.stack([128 + 55 * p / p.std() for p in planes], -1)
        Image.fromarray(np.clip(x, 0, 255).astype(np.uint8)).save(f"{folder}/{i:02}.jpg", quality=90)


def from_memory(data, path):
    Image.open(io.BytesIO(data)).convert("RGB")


def from_file(data, path):
    Image.open(path).convert("RGB")


def to_sample(data, path):  # torchvision's Resize(256), CenterCrop(224)
    im = Image.open(path).convert("RGB")
    w, h = im.size
    im = im.resize((256, int(256 * h / w)) if w <= h else (int(256 * w / h), 256), Image.BILINEAR)
    left, top = round((im.size[0] - 224) / 2), round((im.size[1] - 224) / 2)
    im.crop((left, top, left + 224, top + 224)).tobytes()


def measure(files, seconds=2):
    user = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_utime
    data = [open(f, "rb").read() for f in files]
    for name, work in (("memory", from_memory), ("file", from_file), ("sample", to_sample)):
        start, done = user(), 0
        while user() - start < seconds:
            for d, f in zip(data, files):
                work(d, f)
            done += len(files)
        print(name, round(done / (user() - start)))


if sys.argv[1] == "version":
    import PIL
    print(PIL.__version__)
elif sys.argv[1] == "make":
    make(sys.argv[2])
else:
    measure(sys.argv[2:])
