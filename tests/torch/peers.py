"""The models that gradsum is compared with, in PyTorch: for bench/step_torch.py and bench/accuracy_torch.py.

`network(name)` makes one, `samples(name, n)` n random samples of it, inputs and labels.
"""
import torch
import torch.nn.functional as F
from torch import nn
from network import network as network_of

SHAPE = {"mlp": (1, 28, 28), "lenet": (1, 28, 28), "cnn": (1, 28, 28), "resnet20": (3, 32, 32), "resnet50": (3, 224, 224)}
CONTEXT, VOCABULARY = 64, 96  # of gpt


# ---- models from their texts ----
def normed(outputs, size, stride):
    return "conv %d %dx%d stride %d pad %d no_bias, batch_norm" % (outputs, size, size, stride, size // 2)


def resnet20():
    text, inputs = normed(16, 3, 1) + ", relu", 16
    for outputs in (16, 16, 16, 32, 32, 32, 64, 64, 64):
        stride = outputs // inputs
        shortcut = " | " + normed(outputs, 1, stride) if stride > 1 else ""
        text += ", residual (%s, relu, %s%s), relu" % (normed(outputs, 3, stride), normed(outputs, 3, 1), shortcut)
        inputs = outputs
    return text + ", global_avg_pool, linear 10"


def resnet50():
    text, inputs = "conv 64 7x7 stride 2 pad 3 no_bias, batch_norm, relu, max_pool 3 stride 2 pad 1", 64
    for width, first, blocks in ((64, 1, 3), (128, 2, 4), (256, 2, 6), (512, 2, 3)):
        for stride in [first] + [1] * (blocks - 1):
            shortcut = "" if inputs == 4 * width else " | " + normed(4 * width, 1, stride)
            text += ", residual (%s, relu, %s, relu, %s%s), relu" % (
                normed(width, 1, 1), normed(width, 3, stride), normed(4 * width, 1, 1), shortcut)
            inputs = 4 * width
    return text + ", global_avg_pool, linear 1000"


TEXTS = {"mlp": "flatten, linear 512, relu, linear 256, relu, linear 10",
         "lenet": "conv 6 5x5 pad 2, relu, max_pool 2, conv 16 5x5, relu, max_pool 2, flatten, linear 120, relu, "
                  "linear 84, relu, linear 10",
         "cnn": "conv 32 3x3 pad 1, relu, conv 64 3x3 pad 1, relu, max_pool 2, flatten, linear 128, relu, linear 10",
         "resnet20": resnet20(), "resnet50": resnet50()}


# ---- GPT as in nanoGPT ----
class Attention(nn.Module):
    def __init__(self, width, heads, context):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads
        self.mask = torch.tril(torch.ones(context, context)).bool()  # not a buffer: Gloo cannot broadcast booleans

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
    if name == "gpt":
        return GPT()
    net = network_of(TEXTS[name], SHAPE[name])[0].float()
    for layer in net.modules():
        if isinstance(layer, nn.ReLU):
            layer.inplace = name == "resnet50"
    return net


def samples(name, n):
    if name == "gpt":
        return torch.randint(0, VOCABULARY, (n, CONTEXT)), torch.randint(0, VOCABULARY, (n, CONTEXT))
    return torch.randn(n, *SHAPE[name]), torch.randint(0, 10, (n,))
