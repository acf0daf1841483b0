"""make_pictures.py > pictures.txt: the results of Pillow up to 12 for small pictures, for tests/io/test_pictures.c.
Each line: a name, and bytes in hexadecimal.

    NAME.file   a JPEG
    NAME.rgb    Image.open(...).convert("RGB")
    size-W-H-N  the picture of tests/support/pictures.c with id 3 and W x H, after torchvision's Resize(N x 256 / 224)
                and CenterCrop(N), as [3][N][N]
    rows-...    the same by Pillow 13, which resizes its rows first: "make_pictures.py rows >> pictures.txt"
"""
import io
import sys
import numpy as np
from PIL import Image


def colours(id, w, h):
    i, j, c = np.mgrid[0:h, 0:w, 0:3]
    return Image.fromarray(((i * (3 + c) + j * (2 + id % 5) + 40 * id + 70 * c) % 256).astype(np.uint8))


def show(name, data):
    print(name, bytes(data).hex())


def jpeg(name, image, **options):
    f = io.BytesIO()
    image.save(f, "JPEG", **options)
    show(name + ".file", f.getvalue())
    show(name + ".rgb", np.asarray(Image.open(f).convert("RGB")).tobytes())


def resized(w, h, n, by="size"):
    im, edge = colours(3, w, h), (n * 256 + 112) // 224
    im = im.resize((edge, int(edge * h / w)) if w <= h else (int(edge * w / h), edge), Image.BILINEAR)
    left, top = round((im.size[0] - n) / 2), round((im.size[1] - n) / 2)
    show(f"{by}-{w}-{h}-{n}", np.asarray(im.crop((left, top, left + n, top + n))).transpose(2, 0, 1).tobytes())


if sys.argv[1:] == ["rows"]:
    resized(37, 100, 8, "rows")
    sys.exit()
jpeg("colour", colours(1, 13, 11), quality=85, subsampling=2)
jpeg("progressive", colours(2, 13, 11), quality=75, progressive=True)
jpeg("grey", colours(1, 13, 11).convert("L"), quality=85)
jpeg("cmyk", colours(1, 13, 11).convert("CMYK"), quality=85)
for w, h, n in ((41, 29, 12), (29, 41, 12), (100, 37, 8), (9, 7, 16), (16, 16, 14), (5, 90, 8), (1, 1, 4), (37, 100, 8)):
    resized(w, h, n)
