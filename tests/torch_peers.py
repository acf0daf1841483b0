"""The models that gradsum is compared with, in PyTorch: for bench_torch.py and accuracy_torch.py.

`network(name)` makes one, `samples(name, n)` n random samples of it, inputs and labels.
"""
import torch
import torch.nn.functional as F
from torch import nn

SHAPE = {"mlp": (1, 28, 28), "lenet": (1, 28, 28), "cnn": (1, 28, 28), "resnet20": (3, 32, 32), "resnet50": (3, 224, 224)}
CONTEXT, VOCABULARY = 64, 96  # of gpt


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


def lenet():
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Linear(128, 10))


# ---- ResNet ----
class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential() if stride == 1 else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x))


def resnet20():
    layers, inputs = [nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU()], 16
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        for i in range(3):
            layers.append(Block(inputs, outputs, stride if i == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        normed = lambda i, o, k, s: [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o)]
        self.body = nn.Sequential(*normed(inputs, width, 1, 1), nn.ReLU(inplace=True),
                                  *normed(width, width, 3, stride), nn.ReLU(inplace=True), *normed(width, 4 * width, 1, 1))
        self.shortcut = nn.Sequential() if inputs == 4 * width else nn.Sequential(*normed(inputs, 4 * width, 1, stride))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.relu(self.body(x) + self.shortcut(x))


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, stride, blocks in ((64, 1, 3), (128, 2, 4), (256, 2, 6), (512, 2, 3)):
        for i in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))


# ---- GPT, as nanoGPT has it ----
class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.mask = torch.tril(torch.ones(context, context)).bool()  # no buffer: Gloo cannot broadcast booleans

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (z.view(n, t, self.heads, -1).transpose(1, 2) for z in self.qkv(x).split(width, 2))
        if hasattr(F, "scaled_dot_product_attention"):  # from PyTorch 2 on
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (width // self.heads) ** -0.5
            y = scores.masked_fill(~self.mask[:t, :t], float("-inf")).softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(n, t, width))


class Decoder(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, context)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    def __init__(self, vocabulary=VOCABULARY, context=CONTEXT, layers=4, heads=4, width=128):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Decoder(width, heads, context) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight  # tied

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x))).transpose(1, 2)


def network(name):
    return {"mlp": mlp, "lenet": lenet, "cnn": cnn, "resnet20": resnet20, "resnet50": resnet50, "gpt": GPT}[name]()


def samples(name, n):
    if name == "gpt":
        return torch.randint(0, VOCABULARY, (n, CONTEXT)), torch.randint(0, VOCABULARY, (n, CONTEXT))
    return torch.randn(n, *SHAPE[name]), torch.randint(0, 10, (n,))
