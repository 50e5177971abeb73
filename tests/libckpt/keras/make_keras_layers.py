"""Makes tests/golden/keras_layers.tar.xz: models of Keras' own layers, saved by Keras in each of its forms, and the same weights
as the state dict of torch's layers. The state dict is made here, layer by layer, without this project; torch's layers with it
compute what Keras computes, to 1e-5, before anything is written. Use: python make_keras_layers.py FOLDER [KIND...] (needs keras,
torch, safetensors)

A case is FOLDER/keras_layers/NAME: in.keras, in.h5 or in.weights.h5 (what the file's name says is what Keras wrote) and
torch.safetensors, whose metadata 'back' says whether the way back leads to the tensors of the file again."""

import os
import sys

os.environ["KERAS_BACKEND"] = "torch"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import keras  # noqa: E402
import numpy  # noqa: E402
import torch  # noqa: E402
from keras import layers  # noqa: E402
from safetensors.torch import save_file  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402


def tensor(values):
    return torch.from_numpy(numpy.ascontiguousarray(values).copy())


def same_pad(x, kernel, strides):
    """The zeros that Keras' padding "same" puts around: more on the right and below where they are not even."""
    pads = []
    for size, k, s in reversed(list(zip(x.shape[2:], kernel, strides))):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        pads += [total // 2, total - total // 2]
    return functional.pad(x, pads)


class OfQueries(nn.Module):
    """Attention as a module of its queries alone."""

    def __init__(self, attention, key, value):
        super().__init__()
        self.attention, self.key, self.value = attention, key, value

    def load_state_dict(self, state, strict):
        return self.attention.load_state_dict(state, strict=True)

    def forward(self, query):
        return self.attention(query, self.key, self.value, need_weights=False)[0]


class Twin:
    """What torch's layers compute with the state that the layers of Keras have; channels first inside."""

    def __init__(self, reorders):
        self.state = {}
        self.reorders = reorders  # whether the file says which dense layer sees what Flatten makes
        self.flat = None

    def values(self, layer):
        return [variable.numpy() if hasattr(variable, "numpy") else numpy.asarray(variable) for variable in layer.weights]

    def run(self, module, x, state):
        module.eval()
        module.load_state_dict(state, strict=False)
        with torch.no_grad():
            return module(x)

    def put(self, name, state):
        for key, value in state.items():
            self.state[f"{name}.{key}"] = value

    def act(self, layer, x):
        recurrent = isinstance(layer, (layers.RNN, layers.MultiHeadAttention))  # has it inside
        kind = None if recurrent else getattr(layer, "activation", None)
        return {"relu": torch.relu, "tanh": torch.tanh}.get(getattr(kind, "__name__", ""), lambda y: y)(x)

    def layer(self, layer, name, x):
        method = getattr(self, "of_" + type(layer).__name__)
        return self.act(layer, method(layer, name, x))

    def of_Conv2D(self, layer, name, x):
        values = self.values(layer)
        state = {"weight": tensor(values[0].transpose(3, 2, 0, 1))}
        if layer.use_bias:
            state["bias"] = tensor(values[1])
        self.put(name, state)
        if layer.padding == "same":
            x = same_pad(x, layer.kernel_size, layer.strides)
        module = nn.Conv2d(x.shape[1], layer.filters, layer.kernel_size, layer.strides, groups=layer.groups, bias=layer.use_bias)
        return self.run(module, x, state)

    def of_Conv1D(self, layer, name, x):
        kernel, bias = self.values(layer)
        state = {"weight": tensor(kernel.transpose(2, 1, 0)), "bias": tensor(bias)}
        self.put(name, state)
        x = x.transpose(1, 2)
        return self.run(nn.Conv1d(x.shape[1], layer.filters, layer.kernel_size, layer.strides), x, state).transpose(1, 2)

    def of_DepthwiseConv2D(self, layer, name, x):
        kernel, bias = self.values(layer)
        height, width, channels, times = kernel.shape
        weight = kernel.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width)
        state = {"weight": tensor(weight), "bias": tensor(bias)}
        self.put(name, state)
        return self.run(nn.Conv2d(channels, channels * times, (height, width), layer.strides, groups=channels), x, state)

    def of_SeparableConv2D(self, layer, name, x):
        depthwise, pointwise, bias = self.values(layer)
        height, width, channels, times = depthwise.shape
        first = {"weight": tensor(depthwise.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width))}
        second = {"weight": tensor(pointwise.transpose(3, 2, 0, 1)), "bias": tensor(bias)}
        self.put(name + ".depthwise", first)
        self.put(name + ".pointwise", second)
        x = self.run(nn.Conv2d(channels, channels * times, (height, width), groups=channels, bias=False), x, first)
        return self.run(nn.Conv2d(channels * times, layer.filters, 1), x, second)

    def of_Conv2DTranspose(self, layer, name, x):
        kernel, bias = self.values(layer)
        state = {"weight": tensor(kernel.transpose(3, 2, 0, 1)), "bias": tensor(bias)}
        self.put(name, state)
        return self.run(nn.ConvTranspose2d(x.shape[1], layer.filters, layer.kernel_size, layer.strides), x, state)

    def of_BatchNormalization(self, layer, name, x):
        values = self.values(layer)
        size = values[-1].shape
        state = {"running_mean": values[-2], "running_var": values[-1]}
        if layer.scale or layer.center:
            state["weight"] = values[0] if layer.scale else numpy.ones(size, "f4")
            state["bias"] = values[int(layer.scale)] if layer.center else numpy.zeros(size, "f4")
        state = {key: tensor(value) for key, value in state.items()}
        self.put(name, state)
        kind = nn.BatchNorm2d if x.ndim == 4 else nn.BatchNorm1d
        return self.run(kind(size[0], layer.epsilon, affine="weight" in state), x, state)

    def of_LayerNormalization(self, layer, name, x):
        gamma, beta = self.values(layer)
        state = {"weight": tensor(gamma), "bias": tensor(beta)}
        self.put(name, state)
        moved = x.permute(0, 2, 3, 1) if x.ndim == 4 else x
        out = self.run(nn.LayerNorm(gamma.shape, layer.epsilon), moved, state)
        return out.permute(0, 3, 1, 2) if x.ndim == 4 else out

    def of_GroupNormalization(self, layer, name, x):
        gamma, beta = self.values(layer)
        state = {"weight": tensor(gamma), "bias": tensor(beta)}
        self.put(name, state)
        return self.run(nn.GroupNorm(layer.groups, gamma.shape[0], layer.epsilon), x, state)

    def of_Dense(self, layer, name, x):
        values = self.values(layer)
        weight = values[0].T
        channels, self.flat = self.flat, None
        if channels and self.reorders:  # columns as torch's Flatten has them
            weight = weight.reshape(len(weight), -1, channels).transpose(0, 2, 1).reshape(len(weight), -1)
        elif channels:
            x = x.reshape(len(x), channels, -1).transpose(1, 2).reshape(len(x), -1)
        state = {"weight": tensor(weight)}
        if layer.use_bias:
            state["bias"] = tensor(values[1])
        self.put(name, state)
        return self.run(nn.Linear(weight.shape[1], len(weight), layer.use_bias), x, state)

    def of_Flatten(self, layer, name, x):
        self.flat = x.shape[1]
        return x.flatten(1)

    def of_MaxPooling2D(self, layer, name, x):
        return functional.max_pool2d(x, layer.pool_size, layer.strides)

    def of_Dropout(self, layer, name, x):
        return x

    def of_Activation(self, layer, name, x):
        return x

    def of_InputLayer(self, layer, name, x):
        return x

    def of_Sequential(self, layer, name, x):
        for inner in layer.layers:
            x = self.layer(inner, f"{name}.{inner.name}", x)
        return x

    def of_TimeDistributed(self, layer, name, x):
        return self.layer(layer.layer, name, x)

    def of_Embedding(self, layer, name, x):
        state = {"weight": tensor(self.values(layer)[0])}
        self.put(name, state)
        return self.run(nn.Embedding(*state["weight"].shape), x.long(), state)

    def cell(self, layer, suffix="", kind=None):
        """The state of one direction; gates of GRU are r, z, n in torch and z, r, h in Keras."""
        values = self.values(layer)
        kind = kind or type(layer).__name__

        def gates(value):
            if kind != "GRU":
                return value
            z, r, h = numpy.split(value, 3, axis=0)
            return numpy.concatenate([r, z, h])

        state = {"weight_ih_l0": gates(values[0].T), "weight_hh_l0": gates(values[1].T)}
        if layer.use_bias and kind == "GRU":
            state["bias_ih_l0"], state["bias_hh_l0"] = gates(values[2][0]), gates(values[2][1])
        elif layer.use_bias:
            state["bias_ih_l0"], state["bias_hh_l0"] = values[2], numpy.zeros_like(values[2])
        return {key + suffix: tensor(value) for key, value in state.items()}

    def recurrent(self, layer, name, x, state, both=False, kind=None):
        self.put(name, state)
        kind = {"LSTM": nn.LSTM, "GRU": nn.GRU, "SimpleRNN": nn.RNN}[kind or type(layer).__name__]
        module = kind(x.shape[2], layer.units, batch_first=True, bias=layer.use_bias, bidirectional=both)
        out = self.run(module, x, state)[0]
        return out if layer.return_sequences else out[:, -1]

    def of_LSTM(self, layer, name, x):
        return self.recurrent(layer, name, x, self.cell(layer))

    of_SimpleRNN = of_LSTM

    def of_GRU(self, layer, name, x):
        return self.recurrent(layer, name, x, self.cell(layer))

    def of_RNN(self, layer, name, x):
        """Around one cell: the layer of its kind."""
        layer.cell.return_sequences = layer.return_sequences
        kind = type(layer.cell).__name__.removesuffix("Cell")
        return self.recurrent(layer.cell, name, x, self.cell(layer.cell, kind=kind), kind=kind)

    def attention(self, layer, name, query, value=None, key=None):
        """nn.MultiheadAttention: one matrix for queries, keys and values where all have as many features."""
        value = query if value is None else value
        key = value if key is None else key
        parts = [layer._query_dense, layer._key_dense, layer._value_dense]
        kernels = [numpy.asarray(part.kernel.numpy()) for part in parts]
        features = kernels[0].shape[1] * kernels[0].shape[2]
        matrices = [tensor(kernel.reshape(len(kernel), features).T) for kernel in kernels]
        if key.shape[2] == value.shape[2] == features:
            state = {"in_proj_weight": torch.cat(matrices)}
        else:
            state = {f"{letter}_proj_weight": matrix for letter, matrix in zip("qkv", matrices)}
        if layer._use_bias if hasattr(layer, "_use_bias") else layer.use_bias:
            state["in_proj_bias"] = torch.cat([tensor(part.bias.numpy().reshape(-1)) for part in parts])
            state["out_proj.bias"] = tensor(layer._output_dense.bias.numpy())
        state["out_proj.weight"] = tensor(layer._output_dense.kernel.numpy().reshape(features, -1).T)
        self.put(name, state)
        module = nn.MultiheadAttention(features, kernels[0].shape[1], bias="in_proj_bias" in state, kdim=key.shape[2],
                                       vdim=value.shape[2], batch_first=True)
        assert set(module.state_dict()) == set(state)
        return self.run(OfQueries(module, key, value), query, state)

    def of_Bidirectional(self, layer, name, x):
        state = {**self.cell(layer.forward_layer), **self.cell(layer.backward_layer, "_reverse")}
        return self.recurrent(layer.forward_layer, name, x, state, both=True)


def images(said):
    """`said`: the file says what its layers are; else which of gamma and beta a norm has, where it has one, is not known."""
    inner = keras.Sequential([layers.Input((5, 5, 8)), layers.Conv2D(6, 1, groups=2, activation="relu"),
                              layers.BatchNormalization(scale=not said)], name="inner")
    return keras.Sequential([
        layers.Input((12, 12, 3)),
        layers.Conv2D(4, 3, strides=2, padding="same", activation="relu", name="stem"),
        layers.BatchNormalization(),
        layers.DepthwiseConv2D(3, depth_multiplier=2),
        layers.SeparableConv2D(6, 3),
        layers.Conv2DTranspose(8, 3, strides=2),
        layers.LayerNormalization(),
        inner,
        layers.BatchNormalization(center=not said),
        layers.BatchNormalization(center=False, scale=False),
        layers.GroupNormalization(3),
        layers.Conv2D(5, 2, use_bias=False),
        layers.MaxPooling2D(2, 2),
        layers.Activation("linear"),
        layers.Flatten(),
        layers.Dropout(0.5),
        layers.Dense(7, activation="relu"),
        layers.Dense(3, use_bias=False, name="head"),
    ]), (2, 12, 12, 3)


def texts(said):
    return keras.Sequential([
        layers.Input((9,)),
        layers.Embedding(11, 4),
        layers.Conv1D(6, 3),
        layers.Bidirectional(layers.LSTM(3, return_sequences=True)),
        layers.GRU(5, return_sequences=True),
        layers.Bidirectional(layers.GRU(4, return_sequences=True), name="second"),
        layers.LSTM(3, return_sequences=True, use_bias=False),
        layers.GRU(3, return_sequences=True, use_bias=False),
        layers.TimeDistributed(layers.Dense(4)),
        layers.SimpleRNN(5),
        layers.Dense(2),
    ]), (2, 9)


def functional_model(said):
    """Two branches: no chain, so that the file says the order by names alone."""
    inputs = layers.Input((8, 8, 2))
    left = layers.Conv2D(3, 3, name="left")(inputs)
    right = layers.Conv2D(3, 3, activation="relu", name="right")(inputs)
    x = layers.Flatten()(layers.Activation("linear")(layers.Add()([left, right])))
    return keras.Model(inputs, layers.Dense(2)(x)), (2, 8, 8, 2)


def attentions(said):
    """All forms of torch: one matrix, keys and values of other sizes, without biases; and as many heads for keys as for
    queries where they may be fewer."""
    inputs = layers.Input((5, 8))
    keys, values = layers.Dense(6, name="to_keys")(inputs), layers.Dense(3, name="to_values")(inputs)
    own = layers.MultiHeadAttention(2, 4, dropout=0.1)(inputs, inputs)
    plain = layers.MultiHeadAttention(4, 2, use_bias=False, name="plain")(own, keys)
    cross = layers.MultiHeadAttention(2, 4, name="cross")(plain, values, keys)
    grouped = layers.GroupQueryAttention(4, 2, 2, name="grouped")(cross, cross)
    steps = layers.RNN(layers.GRUCell(4), return_sequences=True, name="steps")(grouped)
    return keras.Model(inputs, layers.Dense(2, name="head")(steps)), (2, 5, 8), compute_attentions


def compute_attentions(twin, model, x):
    at = model.get_layer
    keys, values = (twin.layer(at(name), name, x) for name in ("to_keys", "to_values"))
    x = twin.attention(at("multi_head_attention"), "multi_head_attention", x)
    x = twin.attention(at("plain"), "plain", x, keys)
    x = twin.attention(at("cross"), "cross", x, values, keys)
    x = twin.attention(at("grouped"), "grouped", x)
    return twin.layer(at("head"), "head", twin.layer(at("steps"), "steps", x))


def encoder(said):
    """A block of a Transformer, as a graph of layers."""
    inputs = layers.Input((5, 8))
    x = layers.Add()([inputs, layers.MultiHeadAttention(2, 4, name="att")(inputs, inputs)])
    x = layers.LayerNormalization(epsilon=1e-6, name="first")(x)
    inner = layers.Dense(8, name="down")(layers.Dense(16, activation="relu", name="up")(x))
    x = layers.LayerNormalization(epsilon=1e-6, name="second")(layers.Add()([x, inner]))
    return keras.Model(inputs, layers.Dense(3, name="head")(x)), (2, 5, 8), compute_encoder


def compute_encoder(twin, model, x):
    block, prefix = (model.block, "block.") if isinstance(model, Encoder) else (model, "")
    names = ("att", "first", "up", "down", "second")
    att, first, up, down, second = (block.get_layer(name) if not prefix else getattr(block, name) for name in names)
    x = twin.layer(first, prefix + "first", x + twin.attention(att, prefix + "att", x))
    inner = twin.layer(down, prefix + "down", twin.layer(up, prefix + "up", x))
    x = twin.layer(second, prefix + "second", x + inner)
    head = model.get_layer("head") if not prefix else model.head
    return twin.layer(head, "head", x)


@keras.saving.register_keras_serializable("golden")
class Block(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.att = layers.MultiHeadAttention(2, 4, name="own_name")  # which its weights tell
        self.first, self.second = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.up, self.down = layers.Dense(16, activation="relu"), layers.Dense(8)

    def call(self, x):
        x = self.first(x + self.att(x, x))
        return self.second(x + self.down(self.up(x)))


@keras.saving.register_keras_serializable("golden")
class Encoder(keras.Model):
    def __init__(self, **options):
        super().__init__(**options)
        self.block, self.head = Block(), layers.Dense(3)

    def call(self, x):
        return self.head(self.block(x))


def encoder_class(said):
    """The same block as a class of one's own, in a model of one's own."""
    model = Encoder()
    model(numpy.zeros((2, 5, 8), "f4"))
    return model, (2, 5, 8), compute_encoder


def compute(twin, model, x):
    if isinstance(model, keras.Sequential):
        for layer in model.layers:
            x = twin.layer(layer, layer.name, x)
        return x
    left, right = (twin.layer(model.get_layer(name), name, x) for name in ("left", "right"))
    flat = twin.of_Flatten(None, "", left + right)
    return twin.layer(model.layers[-1], model.layers[-1].name, flat)


def draw(model, seed):
    spread = 32 if any(isinstance(layer, layers.Embedding) for layer in model.layers) else 128  # so that gates open
    random = numpy.random.default_rng(seed)
    for variable in model.variables:
        if "seed_generator" in variable.path:
            continue
        values = random.integers(-64, 65, variable.shape).astype("f4") / spread
        if variable.path.endswith(("gamma", "moving_variance")):
            values = numpy.abs(values) + 0.5
        variable.assign(values)


def case(folder, name, make, file, seed, trained=False):
    keras.backend.clear_session()
    said = not file.endswith(".weights.h5")
    model, shape, *way = make(said)
    draw(model, seed)
    random = numpy.random.default_rng(seed + 1)
    whole = len(shape) == 2
    x = (random.integers(0, 11, shape) if whole else random.standard_normal(shape)).astype("f4")
    twin = Twin(reorders=said)
    with torch.no_grad():
        wanted = model(torch.from_numpy(x), training=False)
        images_first = x.transpose(0, 3, 1, 2).copy() if x.ndim == 4 else x
        got = (way[0] if way else compute)(twin, model, torch.from_numpy(images_first))
    assert float((wanted[0] - wanted[1]).abs().max()) > 1e-3, "it does not see what goes in"
    torch.testing.assert_close(got, wanted.to(got.dtype), rtol=1e-5, atol=1e-5)
    os.makedirs(os.path.join(folder, name))
    if trained:
        model.compile("adam", "mse")
        model.optimizer.build(model.trainable_variables)
    path = os.path.join(folder, name, file)
    model.save_weights(path) if file.endswith(".weights.h5") else model.save(path)
    state = {key: value.contiguous() for key, value in twin.state.items()}
    back = "no" if file.endswith("in.h5") else "yes"
    save_file(state, os.path.join(folder, name, "torch.safetensors"), {"back": back})
    print(name, len(state), "tensors; largest difference", float((got - wanted).abs().max()))


def main():
    folder = os.path.join(sys.argv[1], "keras_layers")
    kinds = {"images": images, "texts": texts, "branches": functional_model, "attentions": attentions, "encoder": encoder,
             "encoder_class": encoder_class}
    for kind in sys.argv[2:] or kinds:
        make = kinds[kind]
        for end, trained in ((".keras", True), (".weights.h5", False), (".h5", True)):
            if kind == "encoder_class" and end == ".h5":
                continue  # Keras saves no classes of one's own so
            case(folder, kind + end.replace(".", "-"), make, "in" + end, len(kind + end), trained)


if __name__ == "__main__":
    main()
