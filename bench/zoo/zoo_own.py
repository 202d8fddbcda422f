"""Networks of the zoo that no library of it has: diffusion, recurrences, recommenders, graphs and points, sound, pictures.

All are written as their papers or their usual code have them, with the sizes of small published models.
"""
import math

import torch
from torch import nn
from torch.nn import functional as F


def mlp(*sizes, last=None):
    layers = [layer for a, b in zip(sizes, sizes[1:]) for layer in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*layers[:-1], *([last] if last else []))


# ---- Diffusion


def timestep_embedding(steps, size):
    frequencies = torch.exp(-math.log(1e4) / (size // 2) * torch.arange(size // 2, device=steps.device, dtype=torch.float32))
    angles = steps[:, None].float() * frequencies
    return torch.cat((angles.cos(), angles.sin()), 1)


class ResidualBlock(nn.Module):
    def __init__(self, n_in, n_out, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(32, n_in), nn.Conv2d(n_in, n_out, 3, padding=1)
        self.time = nn.Linear(embedding, n_out)
        self.norm2, self.conv2 = nn.GroupNorm(32, n_out), nn.Conv2d(n_out, n_out, 3, padding=1)
        self.skip = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class Attention(nn.Module):
    def __init__(self, size, heads, context=None):
        super().__init__()
        self.heads, context = heads, context or size
        self.q, self.k, self.v = (nn.Linear(n, size, bias=False) for n in (size, context, context))
        self.out = nn.Linear(size, size)

    def forward(self, x, context=None):
        context = x if context is None else context
        q, k, v = (y.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                   for y in (self.q(x), self.k(context), self.v(context)))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class CrossBlock(nn.Module):
    """Self-attention, attention to the text, and a gated linear unit, over the positions of a picture."""

    def __init__(self, size, context, heads=8):
        super().__init__()
        self.norm = nn.GroupNorm(32, size)
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(3))
        self.own, self.text = Attention(size, heads), Attention(size, heads, context)
        self.up, self.down = nn.Linear(size, 8 * size), nn.Linear(4 * size, size)

    def forward(self, x, text):
        h = self.norm(x).flatten(2).transpose(1, 2)
        h = h + self.own(self.norms[0](h))
        h = h + self.text(self.norms[1](h), text)
        value, gate = self.up(self.norms[2](h)).chunk(2, -1)
        h = h + self.down(value * F.gelu(gate))
        return x + h.transpose(1, 2).unflatten(2, x.shape[2:])


class UNet(nn.Module):
    """The denoiser of latent diffusion: three levels, attention to a text at the two coarser ones."""

    def __init__(self, width=128, context=256):
        super().__init__()
        embedding, sizes = 4 * width, (width, 2 * width, 4 * width)
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, embedding), nn.SiLU(), nn.Linear(embedding, embedding))
        self.first = nn.Conv2d(4, width, 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        n, skips = width, [width]
        for level, size in enumerate(sizes):
            for _ in range(2):
                cross = CrossBlock(size, context) if level else None
                self.down.append(nn.ModuleList((ResidualBlock(n, size, embedding), cross)))
                n = size
                skips.append(n)
            if level < 2:
                self.down.append(nn.Conv2d(n, n, 3, 2, 1))
                skips.append(n)
        self.middle = nn.ModuleList((ResidualBlock(n, n, embedding), CrossBlock(n, context), ResidualBlock(n, n, embedding)))
        for level, size in reversed(list(enumerate(sizes))):
            for _ in range(3):
                self.up.append(nn.ModuleList((ResidualBlock(n + skips.pop(), size, embedding),
                                              CrossBlock(size, context) if level else None)))
                n = size
            if level:
                self.up.append(nn.Conv2d(n, n, 3, padding=1))
        self.norm, self.last = nn.GroupNorm(32, n), nn.Conv2d(n, 4, 3, padding=1)

    def forward(self, latent, step, text):
        time = self.time(timestep_embedding(step, self.width).to(latent.dtype))
        x = self.first(latent)
        skips = [x]
        for layer in self.down:
            if isinstance(layer, nn.Conv2d):
                x = layer(x)
            else:
                x = layer[0](x, time)
                x = layer[1](x, text) if layer[1] else x
            skips.append(x)
        x = self.middle[2](self.middle[1](self.middle[0](x, time), text), time)
        for layer in self.up:
            if isinstance(layer, nn.Conv2d):
                x = layer(F.interpolate(x, scale_factor=2.0, mode="nearest"))
            else:
                x = layer[0](torch.cat((x, skips.pop()), 1), time)
                x = layer[1](x, text) if layer[1] else x
        return self.last(F.silu(self.norm(x)))


class DiTBlock(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.norm1, self.norm2 = (nn.LayerNorm(size, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attention = Attention(size, heads)
        self.mlp = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(approximate="tanh"), nn.Linear(4 * size, size))
        self.modulation = nn.Linear(size, 6 * size)

    def forward(self, x, condition):
        shift1, scale1, gate1, shift2, scale2, gate2 = self.modulation(F.silu(condition))[:, None].chunk(6, -1)
        x = x + gate1 * self.attention(self.norm1(x) * (1 + scale1) + shift1)
        return x + gate2 * self.mlp(self.norm2(x) * (1 + scale2) + shift2)


class DiT(nn.Module):
    """DiT-S/2 without the classes."""

    def __init__(self, size=384, depth=12, heads=6):
        super().__init__()
        self.size = size
        self.patch = nn.Conv2d(4, size, 2, 2)
        self.position = nn.Parameter(0.02 * torch.randn(1, 256, size))
        self.time = nn.Sequential(nn.Linear(size, size), nn.SiLU(), nn.Linear(size, size))
        self.blocks = nn.ModuleList(DiTBlock(size, heads) for _ in range(depth))
        self.norm, self.last = nn.LayerNorm(size, elementwise_affine=False), nn.Linear(size, 16)

    def forward(self, latent, step):
        condition = self.time(timestep_embedding(step, self.size).to(latent.dtype))
        x = self.patch(latent).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x, condition)
        return F.pixel_shuffle(self.last(self.norm(x)).transpose(1, 2).unflatten(2, (16, 16)), 2)


class VAEDecoder(nn.Module):
    """From a latent of 32x32 to a picture of 256x256."""

    def __init__(self, sizes=(256, 256, 128, 64)):
        super().__init__()
        self.first = nn.Conv2d(4, sizes[0], 3, padding=1)
        self.attention = Attention(sizes[0], 1)
        self.blocks = nn.ModuleList(ResidualBlock(a, b, 1) for a, b in zip((sizes[0], *sizes), sizes))
        self.ups = nn.ModuleList(nn.Conv2d(n, n, 3, padding=1) for n in sizes[:-1])
        self.norm, self.last = nn.GroupNorm(32, sizes[-1]), nn.Conv2d(sizes[-1], 3, 3, padding=1)

    def forward(self, latent):
        x = self.first(latent)
        time = x.new_zeros(x.shape[0], 1)
        x = x + self.attention(x.flatten(2).transpose(1, 2)).transpose(1, 2).unflatten(2, x.shape[2:])
        for i, block in enumerate(self.blocks):
            x = block(x, time)
            if i < len(self.ups):
                x = self.ups[i](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.norm(x)))


# ---- Pictures


class GAN(nn.Module):
    """The generator of DCGAN: transposed convolutions."""

    def __init__(self, width=64):
        super().__init__()
        sizes = (100, 8 * width, 4 * width, 2 * width, width)
        self.layers = nn.Sequential(*(
            layer for i, (a, b) in enumerate(zip(sizes, sizes[1:]))
            for layer in (nn.ConvTranspose2d(a, b, 4, 2 if i else 1, 1 if i else 0, bias=False), nn.BatchNorm2d(b), nn.ReLU())),
            nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())

    def forward(self, noise):
        return self.layers(noise)


class SuperResolution(nn.Module):
    """EDSR: plain residual blocks of 3x3 convolutions, then pixels shuffled to twice the size."""

    def __init__(self, width=64, blocks=16):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                                  nn.Conv2d(width, width, 3, padding=1)) for _ in range(blocks))
        self.middle = nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2),
                                  nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, image):
        x = h = self.first(image)
        for block in self.blocks:
            h = h + block(h)
        return self.last(x + self.middle(h))


class MedicalUNet(nn.Module):
    """U-Net as for medical pictures: batch norms, pooling, transposed convolutions."""

    def __init__(self, width=32):
        super().__init__()

        def block(n_in, n_out):
            return nn.Sequential(nn.Conv2d(n_in, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU(),
                                 nn.Conv2d(n_out, n_out, 3, padding=1, bias=False), nn.BatchNorm2d(n_out), nn.ReLU())

        sizes = [width << i for i in range(5)]
        self.down = nn.ModuleList(block(a, b) for a, b in zip((3, *sizes), sizes))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * n, n, 2, 2) for n in sizes[-2::-1])
        self.up = nn.ModuleList(block(2 * n, n) for n in sizes[-2::-1])
        self.last = nn.Conv2d(width, 1, 1)

    def forward(self, image):
        x, skips = image, []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if skips else x)
            skips.append(x)
        for grow, block, skip in zip(self.grow, self.up, skips[-2::-1]):
            x = block(torch.cat((skip, grow(x)), 1))
        return torch.sigmoid(self.last(x))


# ---- Recurrences and sound


class Recurrent(nn.Module):
    """Two layers in both directions over embedded words, and a tag for each."""

    def __init__(self, kind, words=10000, size=256, tags=20):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.layers = getattr(nn, kind)(size, size, 2, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(2 * size, tags)

    def forward(self, ids):
        return self.tags(self.layers(self.embed(ids))[0])


class DeepSpeech(nn.Module):
    """Convolutions over a spectrogram, then recurrences of one direction."""

    def __init__(self, size=512, letters=29):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, (41, 11), 2, (20, 5), bias=False), nn.BatchNorm2d(32), nn.Hardtanh(0, 20),
                                  nn.Conv2d(32, 32, (21, 11), (2, 1), (10, 5), bias=False), nn.BatchNorm2d(32),
                                  nn.Hardtanh(0, 20))
        self.layers = nn.LSTM(32 * 40, size, 3, batch_first=True)
        self.letters = nn.Linear(size, letters)

    def forward(self, spectrogram):
        x = self.conv(spectrogram).flatten(1, 2).transpose(1, 2)
        return F.log_softmax(self.letters(self.layers(x)[0]), -1)


class WaveNet(nn.Module):
    """Dilated causal convolutions in one dimension, with gates and skips."""

    def __init__(self, width=64, skip=128, layers=20, mels=80):
        super().__init__()
        self.first = nn.Conv1d(mels, width, 1)
        self.dilations = [1 << i % 10 for i in range(layers)]
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=d) for d in self.dilations)
        self.mix = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in self.dilations)
        self.skips = nn.ModuleList(nn.Conv1d(width, skip, 1) for _ in self.dilations)
        self.last = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, sound):
        x, total = self.first(sound), 0
        for dilation, gate, mix, skip in zip(self.dilations, self.gates, self.mix, self.skips):
            value, opening = gate(F.pad(x, (dilation, 0))).chunk(2, 1)
            h = torch.tanh(value) * torch.sigmoid(opening)
            total = total + skip(h)
            x = x + mix(h)
        return self.last(total)


class ConvTasNet(nn.Module):
    """Separates two speakers in the time domain: depthwise convolutions between global layer norms."""

    def __init__(self, filters=256, width=128, inner=256, layers=16):
        super().__init__()
        self.encode, self.decode = nn.Conv1d(1, filters, 16, 8), nn.ConvTranspose1d(filters, 1, 16, 8)
        self.first = nn.Sequential(nn.GroupNorm(1, filters), nn.Conv1d(filters, width, 1))
        self.blocks = nn.ModuleList(nn.Sequential(
            nn.Conv1d(width, inner, 1), nn.PReLU(), nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=1 << i % 8, dilation=1 << i % 8, groups=inner), nn.PReLU(),
            nn.GroupNorm(1, inner), nn.Conv1d(inner, width, 1)) for i in range(layers))
        self.masks = nn.Sequential(nn.PReLU(), nn.Conv1d(width, 2 * filters, 1), nn.Sigmoid())

    def forward(self, sound):
        mixture = self.encode(sound)
        x = self.first(mixture)
        for block in self.blocks:
            x = x + block(x)
        parts = self.masks(x).unflatten(1, (2, -1)) * mixture[:, None]
        return self.decode(parts.flatten(0, 1)).unflatten(0, (-1, 2))


# ---- Recommenders


class DLRM(nn.Module):
    """Embeddings of 26 categories beside 13 numbers; all pairs of them interact by inner products."""

    def __init__(self, categories=26, rows=10000, size=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, size) for _ in range(categories))
        self.bottom = mlp(13, 512, 256, size, last=nn.ReLU())
        n = categories + 1
        self.register_buffer("pairs", (torch.tril_indices(n, n, -1)[0] * n + torch.tril_indices(n, n, -1)[1]), persistent=False)
        self.top = mlp(n * (n - 1) // 2 + size, 512, 256, 1, last=nn.Sigmoid())

    def forward(self, numbers, categories):
        dense = self.bottom(numbers)
        vectors = torch.stack([dense, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        products = (vectors @ vectors.transpose(1, 2)).flatten(1)[:, self.pairs]
        return self.top(torch.cat((dense, products), 1))


class DeepCross(nn.Module):
    """DCN v2: cross layers of full rank beside a deep network."""

    def __init__(self, categories=26, rows=10000, size=16, layers=3):
        super().__init__()
        n = 13 + categories * size
        self.table = nn.Embedding(categories * rows, size)
        self.register_buffer("offsets", rows * torch.arange(categories), persistent=False)
        self.cross = nn.ModuleList(nn.Linear(n, n) for _ in range(layers))
        self.deep, self.last = mlp(n, 1024, 512, last=nn.ReLU()), nn.Linear(n + 512, 1)

    def forward(self, numbers, categories):
        x0 = x = torch.cat((numbers, self.table(categories + self.offsets).flatten(1)), 1)
        for cross in self.cross:
            x = x0 * cross(x) + x
        return torch.sigmoid(self.last(torch.cat((x, self.deep(x0)), 1)))


class SequentialRecommender(nn.Module):
    """SASRec: what was bought so far, causally attended, against all items."""

    def __init__(self, items=20000, size=64, length=200, layers=2):
        super().__init__()
        self.items, self.position = nn.Embedding(items, size), nn.Parameter(0.02 * torch.randn(length, size))
        layer = nn.TransformerEncoderLayer(size, 2, 4 * size, batch_first=True, norm_first=True, activation="gelu")
        self.layers = nn.ModuleList(nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).layers)
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1), persistent=False)

    def forward(self, ids):
        x = self.items(ids) + self.position
        for layer in self.layers:
            x = layer(x, src_mask=self.mask.to(x.dtype))
        return x[:, -1] @ self.items.weight.T


# ---- Graphs and points


class GraphNetwork(nn.Module):
    """Messages along edges, gathered and summed where they arrive, as GIN has it."""

    def __init__(self, features=64, size=128, layers=4):
        super().__init__()
        self.first = nn.Linear(features, size)
        self.layers = nn.ModuleList(mlp(size, 2 * size, size, last=nn.ReLU()) for _ in range(layers))
        self.last = nn.Linear(size, 10)

    def forward(self, nodes, edges):
        """nodes: batch x n x features; edges: batch x 2 x m."""
        x = self.first(nodes)
        start, end = (edges[:, i, :, None].expand(-1, -1, x.shape[2]) for i in (0, 1))
        for layer in self.layers:
            x = x + layer(x + torch.zeros_like(x).scatter_add(1, end, torch.gather(x, 1, start)))
        return self.last(x.mean(1))


class GraphAttention(nn.Module):
    """Attention of two layers among a graph's nodes, under the mask of its adjacency matrix."""

    def __init__(self, features=256, size=32, heads=8, classes=16):
        super().__init__()
        self.first, self.second = nn.Linear(features, heads * size), nn.Linear(heads * size, heads * size)
        self.source, self.target = (nn.Parameter(0.1 * torch.randn(2, heads, size)) for _ in range(2))
        self.heads, self.last = heads, nn.Linear(heads * size, classes)

    def forward(self, nodes, adjacency):
        x = nodes
        for i, linear in enumerate((self.first, self.second)):
            h = linear(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            scores = (h * self.source[i][:, None]).sum(-1)[..., None] + (h * self.target[i][:, None]).sum(-1)[..., None, :]
            scores = F.leaky_relu(scores, 0.2).masked_fill(adjacency[:, None] == 0, -1e4)
            x = F.elu((scores.softmax(-1) @ h).transpose(1, 2).flatten(2))
        return self.last(x)


class PointNet(nn.Module):
    """Points one by one through convolutions of width 1, then their maximum; aligned by a predicted matrix."""

    def __init__(self, classes=40):
        super().__init__()

        def shared(*sizes):
            return nn.Sequential(*(layer for a, b in zip(sizes, sizes[1:])
                                   for layer in (nn.Conv1d(a, b, 1), nn.BatchNorm1d(b), nn.ReLU())))

        self.align, self.matrix = shared(3, 64, 128, 1024), mlp(1024, 512, 256, 9)
        self.near, self.far = shared(3, 64, 64), shared(64, 64, 128, 1024)
        self.last = mlp(1024, 512, 256, classes)

    def forward(self, points):
        matrix = self.matrix(self.align(points).amax(2)).unflatten(1, (3, 3))
        matrix = matrix + torch.eye(3, dtype=points.dtype, device=points.device)
        return self.last(self.far(self.near(matrix @ points)).amax(2))


class EdgeConv(nn.Module):
    """DGCNN: each point's 20 nearest neighbours, found anew in each layer."""

    def __init__(self, sizes=(3, 64, 64, 128), neighbours=20, classes=40):
        super().__init__()
        self.neighbours = neighbours
        self.layers = nn.ModuleList(nn.Sequential(nn.Conv2d(2 * a, b, 1, bias=False), nn.BatchNorm2d(b), nn.LeakyReLU(0.2))
                                    for a, b in zip(sizes, sizes[1:]))
        self.join, self.last = nn.Conv1d(sum(sizes[1:]), 512, 1), mlp(512, 256, classes)

    def forward(self, points):
        x, all_levels = points, []
        for layer in self.layers:
            squares = (x * x).sum(1)
            distance = squares[:, :, None] + squares[:, None] - 2 * x.transpose(1, 2) @ x
            near = distance.topk(self.neighbours, largest=False)[1]
            n, c = x.shape[2], x.shape[1]
            there = torch.gather(x, 2, near.flatten(1)[:, None].expand(-1, c, -1)).unflatten(2, (n, self.neighbours))
            here = x[..., None].expand(-1, -1, -1, self.neighbours)
            x = layer(torch.cat((there - here, here), 1)).amax(3)
            all_levels.append(x)
        return self.last(F.leaky_relu(self.join(torch.cat(all_levels, 1)), 0.2).amax(2))
