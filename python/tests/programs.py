"""Training steps as users write them. Each function returns the modules, the step and its batch, for PyTorch if t is
torch and for Karez if t is karez. numbers(array) makes the initial value of a parameter."""

import numpy as np


def draw(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def ints(high, *shape, seed=0, low=0):
    return np.random.default_rng(seed).integers(low, high, shape)


def auto_encoder(t, nn, F, optim, numbers):
    """A variational autoencoder; the noise is part of the batch."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 16))
            self.decode = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 24))

        def forward(self, x, noise):
            mean, logvar = self.encode(x).chunk(2, -1)
            y = self.decode(mean + t.exp(0.5 * logvar) * noise)
            divergence = -0.5 * (1 + logvar - mean**2 - t.exp(logvar)).sum()
            return (F.binary_cross_entropy_with_logits(y, t.sigmoid(x), reduction="sum") + divergence) / x.shape[0]

    net = Net().double()
    opt = optim.Adam(net.parameters(), lr=3e-3)

    def step(x, noise):
        loss = net(x, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return [net], step, [draw(12, 24), draw(12, 8, seed=1)]


def adversaries(t, nn, F, optim, numbers):
    """Two networks, each with its own optimiser; the second loss depends on the step of the first."""
    generator = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.Tanh()).double()
    discriminator = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).double()
    discriminator_opt, generator_opt = (
        optim.Adam(net.parameters(), lr=1e-2, betas=(0.5, 0.999)) for net in (discriminator, generator)
    )

    def step(real, noise):
        generated = generator(noise)
        score_real, fake = discriminator(real), discriminator(generated.detach())
        loss_d = F.binary_cross_entropy_with_logits(
            score_real, t.ones_like(score_real)
        ) + F.binary_cross_entropy_with_logits(fake, t.zeros_like(fake))
        discriminator_opt.zero_grad()
        loss_d.backward()
        discriminator_opt.step()
        score_again = discriminator(generated)
        loss_g = F.binary_cross_entropy_with_logits(score_again, t.ones_like(score_again))
        generator_opt.zero_grad()
        loss_g.backward()
        generator_opt.step()
        return loss_d, loss_g

    return [generator, discriminator], step, [draw(12, 16), draw(12, 8, seed=1)]


def translator(t, nn, F, optim, numbers):
    """A bidirectional recurrent network reads the source; another one is trained on the target with teacher forcing and
    clipped gradients."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.read = nn.Embedding(20, 16), nn.GRU(16, 16, batch_first=True, bidirectional=True)
            self.bridge, self.key, self.out = nn.Linear(32, 16), nn.Linear(32, 16), nn.Linear(16, 20)
            self.write = nn.GRU(32, 16, batch_first=True)

        def forward(self, x, y):
            h, last = self.read(self.words(x))
            first, k = t.tanh(self.bridge(last.transpose(0, 1).reshape(x.shape[0], -1))), self.key(h)
            context = F.scaled_dot_product_attention(first[:, None, None], k[:, None], k[:, None])[:, 0]
            o, _ = self.write(t.cat([self.words(y[:, :-1]), context.expand(-1, y.shape[1] - 1, -1)], -1), first[None])
            return F.cross_entropy(self.out(o).reshape(-1, 20), y[:, 1:].reshape(-1), ignore_index=0)

    net = Net().double()
    opt = optim.Adam(net.parameters(), lr=1e-2)

    def step(x, y):
        loss = net(x, y)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss

    return [net], step, [ints(20, 12, 4), ints(20, 12, 4, seed=1)]


def towers(t, nn, F, optim, numbers):
    """Contrastive learning of images and texts: the loss asks which text of the batch belongs to each image."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.image = nn.Sequential(
                nn.Conv2d(3, 8, 3, 2, 1),
                nn.ReLU(),
                nn.Conv2d(8, 16, 3, 2, 1),
                nn.ReLU(),
                nn.Flatten(),
                nn.Linear(64, 16),
            )
            self.words, self.project = nn.Embedding(30, 16), nn.Linear(16, 16)
            self.text = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)
            self.scale = nn.Parameter(numbers(np.array(2.6)))

        def forward(self, x, y):
            padding = y == 0
            h, is_word = self.text(self.words(y), src_key_padding_mask=padding), (~padding).double()[..., None]
            a, b = (
                F.normalize(self.image(x), dim=-1),
                F.normalize(self.project((h * is_word).sum(1) / is_word.sum(1).clamp(min=1)), dim=-1),
            )
            similarities, indices = t.exp(self.scale) * a @ b.T, t.arange(x.shape[0])
            return (F.cross_entropy(similarities, indices) + F.cross_entropy(similarities.T, indices)) / 2

    net = Net().double()
    opt = optim.AdamW(net.parameters(), lr=3e-3)

    def step(x, y):
        loss = net(x, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return [net], step, [draw(12, 3, 8, 8), np.where(np.arange(7) < 5, ints(30, 12, 7, low=1), 0)]


def masked_words(t, nn, F, optim, numbers):
    """A masked language model whose output layer shares the embedding table."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.norm = nn.Embedding(40, 32), nn.Embedding(8, 32), nn.LayerNorm(32)
            self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, 0.0, "gelu", batch_first=True), 1)
            self.transform, self.last = nn.Linear(32, 32), nn.LayerNorm(32)
            self.bias = nn.Parameter(numbers(np.zeros(40)))

        def forward(self, x):
            h = self.body(self.norm(self.words(x) + self.places(t.arange(x.shape[1]))), src_key_padding_mask=x == 0)
            return F.linear(self.last(F.gelu(self.transform(h))), self.words.weight, self.bias)

    net = Net().double()
    opt = optim.AdamW(net.parameters(), lr=3e-3)

    def step(x, y, out):
        loss = F.cross_entropy(net(x).reshape(-1, 40), t.where(out, y, -100).reshape(-1), ignore_index=-100)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    y, out = np.where(np.arange(8) < 7, ints(40, 12, 8, low=2), 0), draw(12, 8, seed=1) > 0.5
    return [net], step, [np.where(out, 1, y), y, out]


def noise_remover(t, nn, F, optim, numbers):
    """A diffusion step: convolutions with a sinusoidal time embedding, and attention over the pixels in between."""

    class Block(nn.Module):
        def __init__(self, in_channels, out_channels):
            super().__init__()
            self.norm, self.a, self.time = (
                nn.GroupNorm(4, in_channels),
                nn.Conv2d(in_channels, out_channels, 3, padding=1),
                nn.Linear(32, out_channels),
            )
            self.norm2, self.b = nn.GroupNorm(4, out_channels), nn.Conv2d(out_channels, out_channels, 3, padding=1)
            self.shortcut = nn.Conv2d(in_channels, out_channels, 1)

        def forward(self, x, time):
            h = self.a(F.silu(self.norm(x))) + self.time(F.silu(time))[:, :, None, None]
            return self.shortcut(x) + self.b(F.silu(self.norm2(h)))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.time, self.first, self.last = (
                nn.Sequential(nn.Linear(16, 32), nn.SiLU()),
                nn.Conv2d(1, 8, 3, padding=1),
                nn.Conv2d(8, 1, 3, padding=1),
            )
            self.down, self.up, self.attention = (
                Block(8, 16),
                Block(24, 8),
                nn.MultiheadAttention(16, 2, batch_first=True),
            )

        def forward(self, x, time_step):
            wave = time_step.double()[:, None] * t.exp(-9.2 * t.arange(8).double() / 8)[None]
            time, fine = self.time(t.cat([t.sin(wave), t.cos(wave)], -1)), self.first(x)
            y = self.down(F.avg_pool2d(fine, 2), time)
            n, c, h, w = y.shape
            pixels = y.reshape(n, c, h * w).transpose(1, 2)
            y = y + self.attention(pixels, pixels, pixels, need_weights=False)[0].transpose(1, 2).reshape(n, c, h, w)
            return self.last(self.up(t.cat([F.interpolate(y, scale_factor=2), fine], 1), time))

    net, alpha_bar = Net().double(), np.cumprod(1 - np.linspace(1e-4, 0.02, 50))
    opt = optim.Adam(net.parameters(), lr=1e-3)

    def step(x, time_step, noise):
        share = t.tensor(alpha_bar)[time_step][:, None, None, None]
        loss = F.mse_loss(net(t.sqrt(share) * x + t.sqrt(1 - share) * noise, time_step), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return [net], step, [draw(12, 1, 8, 8), ints(50, 12), draw(12, 1, 8, 8, seed=1)]


def neighbours(t, nn, F, optim, numbers):
    """Graph attention: the features of the edges' nodes are gathered, and messages are summed, by index."""
    net = nn.Sequential(nn.Linear(8, 16), nn.Linear(32, 1), nn.Linear(16, 4)).double()
    opt = optim.Adam(net.parameters(), lr=1e-2)

    def step(x, begin, end, y):
        h = net[0](x)
        weight = t.exp(F.leaky_relu(net[1](t.cat([h[begin], h[end]], -1)), 0.2))
        total = t.zeros(x.shape[0], 1, dtype=h.dtype).index_add(0, end, weight)
        messages = t.zeros(x.shape[0], 16, dtype=h.dtype).index_add(0, end, weight * h[begin])
        loss = F.cross_entropy(net[2](F.elu(messages / (total + 1e-9))), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return [net], step, [draw(12, 8), ints(12, 36), ints(12, 36, seed=1), ints(4, 12)]


def experts(t, nn, F, optim, numbers):
    """A mixture of experts: a router chooses two of four small networks for each row, and a second loss balances their
    load."""
    gate, last = nn.Linear(16, 4).double(), nn.Linear(16, 5).double()
    expert_nets = [nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).double() for _ in range(4)]
    parameters = [p for net in (gate, last, *expert_nets) for p in net.parameters()]
    opt = optim.SGD(parameters, lr=1e-2, momentum=0.9, nesterov=True)

    def step(x, y):
        share = F.softmax(gate(x), -1)
        top_shares, which = t.topk(share, 2, -1)
        top_shares = top_shares / top_shares.sum(-1, keepdim=True)
        out = x + sum(
            (top_shares * (which == i).double()).sum(-1, keepdim=True) * expert(x)
            for i, expert in enumerate(expert_nets)
        )
        load = (share.mean(0) ** 2).sum() * 4
        loss = F.cross_entropy(last(out), y, label_smoothing=0.1) + 0.01 * load
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, load

    return [gate, last, *expert_nets], step, [draw(12, 16), ints(5, 12)]


def policy(t, nn, F, optim, numbers):
    """A clipped policy gradient with a value function."""
    body, actor, critic = (
        nn.Sequential(nn.Linear(6, 32), nn.Tanh()).double(),
        nn.Linear(32, 3).double(),
        nn.Linear(32, 1).double(),
    )
    opt = optim.Adam([p for net in (body, actor, critic) for p in net.parameters()], lr=1e-2)

    def step(x, actions, advantages, returns, old_log_probs):
        h = body(x)
        log_probs = F.log_softmax(actor(h), -1)
        ratio = t.exp(t.gather(log_probs, 1, actions[:, None])[:, 0] - old_log_probs)
        entropy = -(t.exp(log_probs) * log_probs).sum(-1).mean()
        loss = (
            -t.minimum(ratio * advantages, t.clamp(ratio, 0.8, 1.2) * advantages).mean()
            + 0.5 * F.smooth_l1_loss(critic(h).squeeze(-1), returns)
            - 0.01 * entropy
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, entropy

    return (
        [body, actor, critic],
        step,
        [draw(12, 6), ints(3, 12), draw(12, seed=1), draw(12, seed=2), -np.abs(draw(12, seed=3))],
    )


def boxes(t, nn, F, optim, numbers):
    """A detector: learned queries attend to an image and predict classes and boxes."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.queries = nn.Conv2d(3, 16, 3, 2, 1), nn.Parameter(numbers(draw(6, 16)))
            self.body, self.classes, self.boxes = (
                nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True),
                nn.Linear(16, 4),
                nn.Linear(16, 4),
            )

        def forward(self, x):
            h = self.body(self.image(x).flatten(2).transpose(1, 2), self.queries[None].expand(x.shape[0], -1, -1))
            return self.classes(h), t.sigmoid(self.boxes(h))

    net = Net().double()
    opt = optim.AdamW(net.parameters(), lr=1e-3, weight_decay=1e-4)

    def step(x, kinds, places):
        logits, corners = net(x)
        loss = F.cross_entropy(logits.transpose(1, 2), kinds) + 5 * F.l1_loss(corners, places)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    return [net], step, [draw(6, 3, 8, 8), ints(4, 6, 6), np.abs(np.tanh(draw(6, 6, 4, seed=1)))]


ALL = [auto_encoder, adversaries, translator, towers, masked_words, noise_remover, neighbours, experts, policy, boxes]
