"""The zoo's models as somebody would write them with PyTorch, for zoo_table.py.

twin(name) gives (module, function that makes a batch), or raises where there is none.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Recurrent(nn.Module):
    def __init__(self, embedding, layer, head, part=0):
        super().__init__()
        self.embedding, self.layer, self.head, self.part = embedding, layer, head, part

    def forward(self, x):
        return self.head(self.layer(self.embedding(x))[self.part])


class Mean(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc21, self.fc22 = nn.Linear(784, 400), nn.Linear(400, 20), nn.Linear(400, 20)
        self.fc3, self.fc4 = nn.Linear(20, 400), nn.Linear(400, 784)

    def forward(self, x):
        h = F.relu(self.fc1(x))
        mean, logvar = self.fc21(h), self.fc22(h)
        return torch.sigmoid(self.fc4(F.relu(self.fc3(mean)))), mean, logvar


class Word2Vec(nn.Module):
    def __init__(self):
        super().__init__()
        self.in_embed, self.out_embed = nn.Embedding(500, 32), nn.Embedding(500, 32)

    def forward(self, words):
        return torch.bmm(self.out_embed(words[:, 1:]), self.in_embed(words[:, 0]).unsqueeze(2)).squeeze(2)


def squash(s):
    q = (s * s).sum(-1, keepdim=True)
    return q / (q + 1) * s / torch.sqrt(q + 1e-9)


class CapsNet(nn.Module):
    def __init__(self, channels=256, types=32, hidden=(512, 1024)):
        super().__init__()
        self.types = types
        self.conv1, self.primary = nn.Conv2d(1, channels, 9), nn.Conv2d(channels, types * 8, 9, stride=2)
        self.W = nn.Parameter(torch.randn(types * 36, 10, 16, 8) * 0.01)
        self.decoder = nn.Sequential(nn.Linear(160, hidden[0]), nn.ReLU(), nn.Linear(*hidden), nn.ReLU(),
                                     nn.Linear(hidden[1], 784), nn.Sigmoid())

    def forward(self, x):
        h = self.primary(F.relu(self.conv1(x)))
        n, _, height, width = h.shape
        capsules = squash(h.view(n, self.types, 8, height, width).permute(0, 1, 3, 4, 2).reshape(n, -1, 8))
        votes = torch.einsum("ijkl,bil->bjik", self.W, capsules).contiguous()
        logits = torch.zeros(n, 10, 1, votes.size(2))
        for i in range(3):
            v = squash(torch.matmul(torch.softmax(logits, 1), votes))
            if i < 2:
                logits = logits + torch.matmul(v, votes.transpose(2, 3))
        v = v.squeeze(2)
        lengths = torch.sqrt((v * v).sum(-1) + 1e-9)
        mask = F.one_hot(lengths.argmax(1), 10).to(v.dtype).unsqueeze(-1)
        return lengths, self.decoder((v * mask).flatten(1))


class GPTBlock(nn.Module):
    def __init__(self, width, heads, bias):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=bias), nn.LayerNorm(width, bias=bias)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=bias), nn.Linear(width, width, bias=bias)
        self.up, self.down = nn.Linear(width, 4 * width, bias=bias), nn.Linear(4 * width, width, bias=bias)

    def forward(self, x):
        n, t, width = x.shape
        q, k, v = (part.view(n, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.ln_1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(n, t, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.ln_2(x))))


class NanoGPT(nn.Module):
    def __init__(self, words, block, layers, heads, width, bias):
        super().__init__()
        self.wte, self.wpe, self.ln_f = nn.Embedding(words, width), nn.Embedding(block, width), nn.LayerNorm(width, bias=bias)
        self.h = nn.Sequential(*(GPTBlock(width, heads, bias) for _ in range(layers)))
        self.lm_head = nn.Linear(width, words, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        return self.lm_head(self.ln_f(self.h(self.wte(tokens) + self.wpe(torch.arange(tokens.size(1))))))


def pooled(*convs):
    layers = []
    for conv in convs:
        layers += [conv, nn.ReLU(), nn.MaxPool2d(2)]
    return layers


def head(*widths):
    layers = [nn.Flatten()]
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return layers[:-1]


def encoder(**options):
    layer = nn.TransformerEncoderLayer(32, 4, 64, 0.1, batch_first=True, **options)
    return nn.Sequential(nn.Linear(16, 32), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
                         nn.Linear(32, 6))


def images(*size):
    return lambda n: torch.randn(n, *size)


def tokens(*size, words=40):
    return lambda n: torch.randint(0, words, (n, *size))


SMALL = {
    "mlp": lambda: (nn.Sequential(*head(784, 256, 10)), images(784)),
    "lenet5": lambda: (nn.Sequential(*pooled(nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)),
                                     *head(400, 120, 84, 10)), images(1, 28, 28)),
    "mnist_net": lambda: (nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(),
                                        nn.MaxPool2d(2), *head(9216, 128, 10), nn.LogSoftmax(1)), images(1, 28, 28)),
    "cifar_net": lambda: (nn.Sequential(*pooled(nn.Conv2d(3, 6, 5), nn.Conv2d(6, 16, 5)), *head(400, 120, 84, 10)),
                          images(3, 32, 32)),
    "batchnorm_net": lambda: (nn.Sequential(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
                                            nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1, bias=False),
                                            nn.BatchNorm2d(16), nn.ReLU(True), Mean((2, 3)), nn.Linear(16, 10)),
                              images(1, 28, 28)),
    "simple_rnn": lambda: (Recurrent(nn.Identity(), nn.RNN(10, 5), nn.Linear(5, 3), 1),
                           lambda n: torch.randn(32, n, 10)),
    "step_rnn": lambda: (Recurrent(nn.Identity(), nn.RNN(10, 5, 2, batch_first=True, nonlinearity="relu"),
                                   nn.Linear(5, 3)), images(32, 10)),
    "char_lstm": lambda: (Recurrent(nn.Embedding(65, 32), nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 65)),
                          tokens(64)),
    "char_lstm_2_layers": lambda: (Recurrent(nn.Embedding(40, 16), nn.LSTM(16, 24, 2, batch_first=True),
                                             nn.Linear(24, 40)), tokens(64)),
    "char_gru": lambda: (Recurrent(nn.Embedding(65, 32), nn.GRU(32, 48, 2, batch_first=True), nn.Linear(48, 65)),
                         tokens(64)),
    "bilstm_classifier": lambda: (Recurrent(nn.Identity(), nn.LSTM(12, 16, 2, batch_first=True, bidirectional=True),
                                            nn.Sequential(Mean(1), nn.Linear(32, 5))), images(32, 12)),
    "encoder_classifier": lambda: (encoder(), images(32, 16)),
    "encoder_classifier_prenorm": lambda: (encoder(norm_first=True, activation="gelu"), images(32, 16)),
    "autoencoder": lambda: (nn.Sequential(nn.Linear(784, 400), nn.ReLU(), nn.Linear(400, 20), nn.Linear(20, 400),
                                          nn.ReLU(), nn.Linear(400, 784), nn.Sigmoid()), images(784)),
    "vae": lambda: (VAE(), images(784)),
    "word2vec": lambda: (Word2Vec(), tokens(11, words=500)),
    "capsnet": lambda: (CapsNet(), images(1, 28, 28)),
    "capsnet_small": lambda: (CapsNet(16, 4, (32, 64)), images(1, 28, 28)),
    "nanogpt_gpt2": lambda: (NanoGPT(50257, 1024, 12, 12, 768, True), tokens(128, words=30000)),
    "nanogpt_shakespeare_char": lambda: (NanoGPT(65, 256, 6, 6, 384, False), tokens(256, words=65)),
}


def of_transformers(name):
    import transformers as hf
    many = tokens(128, words=30000)
    if "gpt2" in name:
        shape = {"gpt2": (12, 12, 768), "gpt2_medium": (24, 16, 1024), "gpt2_large": (36, 20, 1280),
                 "gpt2_xl": (48, 25, 1600), "distilgpt2": (6, 12, 768)}[name]
        return hf.GPT2LMHeadModel(hf.GPT2Config(use_cache=False, n_layer=shape[0], n_head=shape[1],
                                                n_embd=shape[2])), many
    large = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
    if name.startswith("bert"):
        kind = {"bert_base_masked_lm": hf.BertForMaskedLM, "bert_base_pretraining": hf.BertForPreTraining,
                "bert_base_classifier": hf.BertForSequenceClassification}.get(name, hf.BertModel)
        return kind(hf.BertConfig(**(large if name == "bert_large" else {}))), many
    if name.startswith("hf_vit"):
        return hf.ViTModel(hf.ViTConfig(**(large if name == "hf_vit_large" else {}))), images(3, 224, 224)
    if name != "llama_1b_shape":
        raise ValueError(f"{name}: too large to have a twin beside it")
    return hf.LlamaForCausalLM(hf.LlamaConfig(
        vocab_size=32000, hidden_size=2048, intermediate_size=5632, num_hidden_layers=22, num_attention_heads=32,
        num_key_value_heads=4, use_cache=False)), many


def twin(name):
    if name in SMALL:
        return SMALL[name]()
    if name.startswith(("gpt2", "distilgpt2", "bert", "llama", "hf_vit")):
        return of_transformers(name)
    import torchvision
    options = {}
    if name.startswith(("googlenet", "inception")):
        options = {"init_weights": False, "aux_logits": not name.endswith("_no_aux")}
    if name.startswith(("fcn", "deeplab")):
        options = {"weights_backbone": None}
    side = 299 if name.startswith("inception") else 224
    return torchvision.models.get_model(name.removesuffix("_no_aux"), weights=None, **options), images(3, side, side)
