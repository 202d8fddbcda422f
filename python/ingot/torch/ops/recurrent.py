"""Recurrent layers. PyTorch's gates in ONNX's order: LSTM i f g o -> i o f g; GRU r z n -> z r n."""

from ..errors import Unsupported
from ..registry import register

ORDERS = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}


def _gates(b, weight, kind):
    order = ORDERS[kind]
    hidden = weight.shape[0] // len(order)
    return b.concat([b.slice(weight, 0, g * hidden, hidden) for g in order], 0)


def _stacked(b, parts):
    return b.concat([b.unsqueeze(x, 0) for x in parts], 0)


def _layers(b, kind, x, states, params, has_biases, num_layers, bidirectional, batch_first, **options):
    """All layers. states: h0, and for LSTM c0, of [layers * directions, batch, hidden]. Returns y and final states."""
    directions, per = 2 if bidirectional else 1, 4 if has_biases else 2
    if len(params) != per * directions * num_layers:
        raise Unsupported("a recurrent layer with projections")
    x = b.transpose(x, [1, 0, 2]) if batch_first else x
    finals = [[] for _ in states]
    for layer in range(num_layers):
        rows = range(layer * directions, (layer + 1) * directions)
        sets = [params[r * per : (r + 1) * per] for r in rows]
        sets = [[_gates(b, w, kind) for w in group] for group in sets]
        bias = _stacked(b, [b.concat([g[2], g[3]], 0) for g in sets]) if has_biases else None
        first = [b.slice(s, 0, rows[0], directions) for s in states]
        inputs = [x, _stacked(b, [g[0] for g in sets]), _stacked(b, [g[1] for g in sets]), bias, None, *first]
        hidden = sets[0][1].shape[1]
        direction = "bidirectional" if bidirectional else "forward"
        y, *last = b.op(kind, *inputs, outputs=1 + len(states), hidden_size=hidden, direction=direction, **options)
        time, _, batch, _ = y.shape  # [time, directions, batch, hidden]
        x = b.reshape(b.transpose(y, [0, 2, 1, 3]), [time, batch, directions * hidden])
        for kept, state in zip(finals, last):
            kept.append(state)
    x = b.transpose(x, [1, 0, 2]) if batch_first else x
    return x, *[b.concat(kept, 0) for kept in finals]


def _check(dropout, train, num_layers):
    if dropout and train and num_layers > 1:
        raise Unsupported("dropout in training mode")


@register("lstm.input")
def _lstm(b, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    _check(dropout, train, num_layers)
    return _layers(b, "LSTM", x, hx, params, has_biases, num_layers, bidirectional, batch_first)


@register("gru.input")
def _gru(b, x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    _check(dropout, train, num_layers)
    options = {"linear_before_reset": 1}
    return _layers(b, "GRU", x, [hx], params, has_biases, num_layers, bidirectional, batch_first, **options)


@register("mkldnn_rnn_layer")
def _onednn_layer(b, x, w_input, w_hidden, b_input, b_hidden, h, c, reverse, batch_sizes, mode, hidden_size, num_layers,
                  has_biases, bidirectional, batch_first, train):  # fmt: skip
    """One layer in one direction, as torch.compile sees a recurrent layer on the CPU. mode 2: LSTM."""
    if mode != 2 or num_layers != 1 or bidirectional or batch_sizes:
        raise Unsupported("a recurrent layer of oneDNN's that is no plain LSTM")
    group = [_gates(b, w, "LSTM") for w in (w_input, w_hidden, b_input, b_hidden)]
    bias = b.unsqueeze(b.concat(group[2:], 0), 0) if has_biases else None
    states = [b.reshape(s, [1, *s.shape[-2:]]) for s in (h, c)]
    direction = "reverse" if reverse else "forward"
    inputs = [x, b.unsqueeze(group[0], 0), b.unsqueeze(group[1], 0), bias, None, *states]
    results = b.op("LSTM", *inputs, outputs=3, hidden_size=hidden_size, direction=direction)
    return *(b.reshape(y, shape) for y, (_, shape) in zip(results, b.outputs)), None
