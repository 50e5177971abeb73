"""The models of the corpus: real module trees of real libraries, made narrow so that each takes some kilobytes.

Use: model = build("resnet18"); truth = trained("resnet18")   # a state dict of weights as training would leave them
"""

import copy
import functools
import re
import zlib

import torch
from torch import nn

OUTER = re.compile(r"^(?:module\.|_orig_mod\.|bert\.|transformer\.)*")

# ---- making models narrow ----


def fewer(number, by):
    return max(1, number // by)


def narrow_layer(layer, by, keep_out):
    """The layer with a fraction of its channels; None for one that is left as it is."""
    if isinstance(layer, nn.modules.conv._ConvNd):
        depthwise = layer.groups == layer.in_channels and layer.groups > 1
        into = layer.in_channels if layer.in_channels <= 3 else fewer(layer.in_channels, by)
        out = layer.out_channels if keep_out else fewer(layer.out_channels, by)
        groups = into if depthwise else 1
        return type(layer)(
            into, out, layer.kernel_size, layer.stride, layer.padding, groups=groups, bias=layer.bias is not None
        )
    if isinstance(layer, nn.Linear) and type(layer) is not nn.modules.linear.NonDynamicallyQuantizableLinear:
        out = layer.out_features if keep_out else fewer(layer.out_features, by)
        return nn.Linear(fewer(layer.in_features, by), out, layer.bias is not None)
    if isinstance(layer, nn.modules.batchnorm._BatchNorm):
        return type(layer)(fewer(layer.num_features, by), layer.eps, layer.momentum, layer.affine, layer.track_running_stats)
    return None


def narrow(model, by, head=""):
    """Divides the channels of all layers; the layer named `head` keeps its outputs."""
    for name, module in list(model.named_modules()):
        for child_name, child in list(module.named_children()):
            path = f"{name}.{child_name}" if name else child_name
            layer = narrow_layer(child, by, path == head)
            if layer is not None:
                setattr(module, child_name, layer)
    return model


# ---- own models ----


class LeNet(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1 = nn.Linear(8 * 4 * 4, 12)
        self.fc2 = nn.Linear(12, classes)

    def forward(self, x):
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        return self.fc2(torch.relu(self.fc1(x.flatten(1))))


class ConvolutionalLeNet(nn.Module):
    """The same on images of any size: its first full layer is a convolution on the whole map."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 8, 5)
        self.fc1 = nn.Conv2d(8, 12, 4)
        self.fc2 = nn.Conv2d(12, 10, 1)


class ConvBlock(nn.Module):
    def __init__(self, into, out):
        super().__init__()
        self.double_conv = nn.Sequential(
            nn.Conv2d(into, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
            nn.Conv2d(out, out, 3, padding=1, bias=False),
            nn.BatchNorm2d(out),
            nn.ReLU(inplace=True),
        )


class UNet(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.inc = ConvBlock(3, 4)
        self.down1 = ConvBlock(4, 6)
        self.down2 = ConvBlock(6, 8)
        self.up1 = nn.ConvTranspose2d(8, 6, 2, stride=2)
        self.conv_up1 = ConvBlock(12, 6)
        self.up2 = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.conv_up2 = ConvBlock(8, 4)
        self.outc = nn.Conv2d(4, classes, 1)


class Tagger(nn.Module):
    def __init__(self, cell=nn.LSTM, layers=2):
        super().__init__()
        self.embedding = nn.Embedding(30, 6)
        self.rnn = cell(6, 5, num_layers=layers, bidirectional=True, batch_first=True)
        self.hidden2tag = nn.Linear(10, 7)


class Temperature(nn.Module):
    """A parameter and a buffer without dimensions, and a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 6), nn.LayerNorm(6), nn.Linear(6, 6))
        self.logit_scale = nn.Parameter(torch.tensor(2.6592))
        self.register_buffer("step", torch.tensor(0))
        self.register_buffer("mask", torch.zeros(4, 4), persistent=False)


class Styled(nn.Module):
    """InstanceNorm with running statistics."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 5, 3)
        self.norm1 = nn.InstanceNorm2d(5, affine=True, track_running_stats=True)
        self.conv2 = nn.Conv2d(5, 5, 3)
        self.norm2 = nn.InstanceNorm2d(5, affine=True, track_running_stats=True)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        sn = nn.utils.spectral_norm
        self.main = nn.Sequential(
            sn(nn.Conv2d(3, 4, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            sn(nn.Conv2d(4, 6, 4, 2, 1)),
            nn.LeakyReLU(0.2),
            sn(nn.Linear(6, 1)),
        )


class WaveStack(nn.Module):
    """Weight norm, by the old functions or by the new parametrizations."""

    def __init__(self, new):
        super().__init__()
        wn = nn.utils.parametrizations.weight_norm if new else nn.utils.weight_norm
        self.start = wn(nn.Conv1d(4, 6, 1))
        self.in_layers = nn.ModuleList([wn(nn.Conv1d(6, 6, 3)) for _ in range(3)])
        self.end = nn.Conv1d(6, 4, 1)


class Attentive(nn.Module):
    """torch's own transformer layers: in_proj holds query, key and value."""

    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(8, 5)


class Siamese(nn.Module):
    """One branch under two names."""

    def __init__(self):
        super().__init__()
        self.left = nn.Sequential(nn.Linear(7, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))
        self.right = self.left
        self.out = nn.Linear(6, 1)


def mlp_bn(classes=4):
    return nn.Sequential(
        nn.Linear(9, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, classes)
    )


def autoencoder():
    return nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3)),
            "decoder": nn.Sequential(nn.ConvTranspose2d(6, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.ConvTranspose2d(4, 3, 3)),
        }
    )


# ---- models of libraries ----


def vision(name, by=32, head="", **options):
    from torchvision import models

    return narrow(models.get_model(name, weights=None, **options), by, head)


def densenet():
    from torchvision.models import DenseNet

    return DenseNet(growth_rate=3, block_config=(2, 2, 2), num_init_features=6, bn_size=2, num_classes=7)


def vit(depth=2, classes=6, size=16):
    from torchvision.models import VisionTransformer

    return VisionTransformer(size, 8, depth, 2, 8, 16, num_classes=classes)


def swin():
    from torchvision.models import SwinTransformer

    return SwinTransformer([4, 4], 4, [2, 2], [1, 2], [4, 4], num_classes=5)


def timm_model(name, **options):
    import timm

    return timm.create_model(name, pretrained=False, **options)


def timm_resnet():
    return narrow(timm_model("resnet18", num_classes=10), 32, "fc")


def timm_vit(classes=6):
    return timm_model("vit_tiny_patch16_224", img_size=32, embed_dim=8, depth=2, num_heads=2, num_classes=classes)


def hugging_face(kind, config, **options):
    import transformers

    transformers.logging.set_verbosity_error()
    return getattr(transformers, kind)(getattr(transformers, config)(**options))


def gpt2(layers=2, kind="GPT2LMHeadModel", **options):
    ids = {"bos_token_id": 0, "eos_token_id": 1}
    return hugging_face(kind, "GPT2Config", n_embd=8, n_layer=layers, n_head=2, vocab_size=24, n_positions=12, **ids, **options)


def bert(kind="BertForMaskedLM", vocabulary=26, **options):
    return hugging_face(
        kind,
        "BertConfig",
        hidden_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=12,
        vocab_size=vocabulary,
        max_position_embeddings=14,
        **options,
    )


def t5():
    return hugging_face(
        "T5ForConditionalGeneration",
        "T5Config",
        d_model=8,
        d_kv=4,
        d_ff=12,
        num_layers=2,
        num_heads=2,
        vocab_size=22,
        relative_attention_num_buckets=8,
        decoder_start_token_id=0,
    )


def llama(tied=True, layers=2):
    return hugging_face(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=8,
        intermediate_size=12,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        vocab_size=20,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
    )


def known(name, **options):
    """Of full size: what `--for NAME` knows."""
    from torchvision import models

    with torch.device("meta"):
        model = models.get_model(name, weights=None, **options)
    return model


BUILDERS = {
    "lenet": LeNet,
    "lenet_100": lambda: LeNet(100),
    "lenet_fcn": ConvolutionalLeNet,
    "mlp_bn": mlp_bn,
    "mlp_bn_9": lambda: mlp_bn(9),
    "unet": UNet,
    "lstm": Tagger,
    "lstm_3_layers": lambda: Tagger(layers=3),
    "gru": lambda: Tagger(nn.GRU),
    "temperature": Temperature,
    "styled": Styled,
    "discriminator": Discriminator,
    "wave_old": lambda: WaveStack(False),
    "wave_new": lambda: WaveStack(True),
    "attentive": Attentive,
    "attentive_4": lambda: Attentive(4),
    "siamese": Siamese,
    "autoencoder": autoencoder,
    "resnet18": lambda: vision("resnet18", head="fc", num_classes=10),
    "resnet18_37": lambda: vision("resnet18", head="fc", num_classes=37),
    "resnet18_wide": lambda: vision("resnet18", by=16, head="fc", num_classes=10),
    "resnet34": lambda: vision("resnet34", head="fc", num_classes=10),
    "resnet50": lambda: vision("resnet50", by=64, head="fc", num_classes=10),
    "mobilenet_v2": lambda: vision("mobilenet_v2", by=16, head="classifier.1", num_classes=10),
    "mobilenet_v2_37": lambda: vision("mobilenet_v2", by=16, head="classifier.1", num_classes=37),
    "vgg11_bn": lambda: vision("vgg11_bn", by=64, head="classifier.6", num_classes=10),
    "efficientnet_b0": lambda: vision("efficientnet_b0", by=16, head="classifier.1", num_classes=10),
    "squeezenet": lambda: vision("squeezenet1_1", by=16, head="classifier.1", num_classes=10),
    "densenet": densenet,
    "vit": vit,
    "vit_4": lambda: vit(4),
    "vit_large_image": lambda: vit(size=32),
    "swin": swin,
    "timm_resnet18": timm_resnet,
    "timm_vit": timm_vit,
    "timm_vit_11": lambda: timm_vit(11),
    "gpt2": gpt2,
    "gpt2_4": lambda: gpt2(4),
    "gpt2_base": lambda: gpt2(kind="GPT2Model"),
    "bert": bert,
    "bert_base": lambda: bert("BertModel"),
    "bert_vocabulary": lambda: bert(vocabulary=31),
    "bert_classifier": lambda: bert("BertForSequenceClassification", num_labels=3),
    "t5": t5,
    "llama": llama,
    "llama_untied": lambda: llama(False),
    "llama_3": lambda: llama(layers=3),
    "known_resnet18": lambda: known("resnet18"),
    "known_resnet34": lambda: known("resnet34"),
    "known_resnet50": lambda: known("resnet50"),
    "known_resnet18_10": lambda: known("resnet18", num_classes=10),
    "known_wide_resnet50_2": lambda: known("wide_resnet50_2"),
    "known_mobilenet_v2": lambda: known("mobilenet_v2"),
    **{
        "known_" + name: functools.partial(known, name)
        for name in (
            "mobilenet_v3_small",
            "mobilenet_v3_large",
            "efficientnet_b0",
            "efficientnet_b1",
            "densenet121",
            "densenet169",
            "shufflenet_v2_x0_5",
            "shufflenet_v2_x1_0",
            "mnasnet0_5",
            "mnasnet1_0",
            "vgg11_bn",
            "vgg13_bn",
        )
    },
}


@functools.cache
def prototype(name):
    wrap, _, bare = name.rpartition(" ")
    torch.manual_seed(zlib.crc32(bare.encode()))
    model = BUILDERS[bare]()
    if wrap == "compile":
        return torch.compile(model)
    if wrap == "data_parallel":
        return nn.DataParallel(model)
    if wrap == "both":
        return nn.DataParallel(torch.compile(model))
    return model


def build(name):
    """A model whose weights are those of a fresh one. "data_parallel resnet18", "compile unet": wrapped."""
    model = prototype(name)
    if is_known(name):
        return model.to_empty(device="cpu")
    if name.endswith("wave_old"):  # the old weight norm cannot be copied
        return BUILDERS[name]()
    return copy.deepcopy(model)


def is_known(name):
    return name.rpartition(" ")[2].startswith("known_")


def values(shape, dtype, draw):
    """Whole numbers over 64 where they can be: all that is rounded to half precision stays what it was."""
    if dtype.is_floating_point:
        return (torch.randint(-127, 128, shape, generator=draw).to(torch.float32) / 64).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=draw).to(torch.bool)
    return torch.randint(3, 120, shape, generator=draw).to(dtype)


def one_value(tensor, number):
    """A tensor of full size that takes a few bytes in a file: every element is the same number."""
    value = torch.tensor(number).to(tensor.dtype) if tensor.dtype == torch.int64 else torch.tensor(number / 8)
    return value.expand(tensor.shape)


@functools.cache
def trained(name):
    """The model's state dict with drawn weights; tied names share theirs, tables that follow from the shape keep theirs.
    A key has the same weights in every model where it has the same shape, with or without the names of what it lies in."""
    model = prototype(name)
    state = model.state_dict()
    drawn = {}
    for number, (key, tensor) in enumerate(state.items(), 1):
        if is_known(name):
            state[key] = one_value(tensor, number)
            continue
        fixed = key.endswith(("position_ids", "relative_position_index", "token_type_ids"))
        at = tensor.data_ptr() if tensor.numel() else key
        if at not in drawn:
            draw = torch.Generator().manual_seed(zlib.crc32(OUTER.sub("", key).encode()))
            drawn[at] = tensor.clone() if fixed else values(tensor.shape, tensor.dtype, draw)
        state[key] = drawn[at]
    return state
