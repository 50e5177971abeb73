#!/usr/bin/env python3
"""The steps of gpu_bench in PyTorch, and a table of both. usage: gpu_peer.py OURS.jsonl [BENCH_FOLDER] [RUNTIME_BENCH.jsonl]"""
import json, sys, time
import torch
import torch.nn.functional as f

dev = torch.device("cuda")
# PyTorch's defaults, which are ours: convolutions of f32 in TF32, products in f32.
torch.backends.cudnn.allow_tf32 = True
torch.backends.cuda.matmul.allow_tf32 = False
results = {}


def timed(step):
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    step()
    torch.cuda.synchronize()
    count = max(1, min(200, int(0.03 / max(1e-6, time.perf_counter() - begin))))
    seconds = []
    for _ in range(7):
        begin = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - begin) / count)
    return sorted(seconds)[3] * 1e6


def t(name, step):
    try:
        results[name] = timed(step)
    except Exception as error:  # noqa: BLE001
        print(name, "torch:", str(error).split("\n")[0][:120], file=sys.stderr)


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, device=dev)


def no_grad(step):
    def go():
        with torch.no_grad():
            step()
    return go


def clear(*tensors):
    for x in tensors:
        x.grad = None


def memory():
    n = 1 << 28
    a, b = randn(n), randn(n)
    t("add f32 2^28", lambda: a + b)
    t("exp f32 2^28", lambda: torch.exp(a))
    t("gelu f32 2^28", lambda: f.gelu(a))
    t("sum f32 2^28", lambda: a.sum())
    t("cast f32 to bf16 2^28", lambda: a.to(torch.bfloat16))
    t("cumsum f32 2^28", lambda: a.cumsum(0))
    t("rand f32 2^28", lambda: torch.rand(n, device=dev))
    t("dropout f32 2^28", lambda: f.dropout(a, 0.1, True))
    leaf = a.detach().requires_grad_()

    def dropout_both():
        f.dropout(leaf, 0.1, True).backward(b)
        clear(leaf)
    t("dropout both f32 2^28", dropout_both)
    ha, hb = a.bfloat16(), b.bfloat16()
    del a, b
    t("add bf16 2^28", lambda: ha + hb)
    t("sum bf16 2^28", lambda: ha.sum())
    del ha, hb
    x, bias, column, weight = randn(16384, 4096), randn(4096), randn(16384, 1), randn(4096)
    t("add row f32 16384x4096", lambda: x + bias)
    t("add column f32 16384x4096", lambda: x + column)
    t("transpose f32 16384x4096", lambda: x.t().contiguous())
    t("sum rows f32 16384x4096", lambda: x.sum(1))
    t("sum columns f32 16384x4096", lambda: x.sum(0))
    t("softmax f32 16384x4096", lambda: x.softmax(1))
    t("layer_norm f32 16384x4096", lambda: f.layer_norm(x, (4096,), weight, bias))
    h, hw, hb = x.bfloat16(), weight.bfloat16(), bias.bfloat16()
    t("softmax bf16 16384x4096", lambda: h.softmax(1))
    t("layer_norm bf16 16384x4096", lambda: f.layer_norm(h, (4096,), hw, hb))
    keys = randn(1 << 24)
    t("sort f32 2^24", lambda: keys.sort())
    t("sort f32 rows of 512", lambda: keys.view(-1, 512).sort(1))


def products():
    for name, dtype in (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16), ("f64", torch.float64)):
        n = 4096 if dtype in (torch.float32, torch.float64) else 8192
        a, b, c = randn(n, n, dtype=dtype), randn(n, n, dtype=dtype), randn(n, dtype=dtype)
        if name == "f32":
            torch.backends.cuda.matmul.allow_tf32 = True
            t("matmul tf32", lambda: a @ b)
            torch.backends.cuda.matmul.allow_tf32 = False
        t(f"matmul {name}", lambda: a @ b)
        t(f"linear with bias {name}", lambda: f.linear(a, b, c))
    a, b = randn(1024, 128, 64, dtype=torch.bfloat16), randn(1024, 64, 128, dtype=torch.bfloat16)
    t("bmm bf16 1024 of 128x64x128", lambda: torch.bmm(a, b))


def attention():
    for name, dtype in (("bf16", torch.bfloat16), ("f32", torch.float32)):
        length = 1024 if name == "f32" else 4096
        seen = (torch.arange(length, device=dev) < length * 3 // 4).view(1, 1, 1, length)
        kinds = [("", width, {}) for width in (64, 128)]
        kinds += [(" causal", width, {"is_causal": True}) for width in (64, 128)]
        kinds += [(" padded", 64, {"attn_mask": seen.expand(4, 1, 1, length)}),
                  (" added", 64, {"attn_mask": randn(length, length, dtype=dtype)}),
                  (" dropout", 64, {"dropout_p": 0.1}),
                  (" causal dropout", 64, {"dropout_p": 0.1, "is_causal": True})]
        for kind, width, options in kinds:
            text = f"{name}{kind} {width}"
            q, k, v = (randn(4, 16, length, width, dtype=dtype).requires_grad_() for _ in range(3))
            g = randn(4, 16, length, width, dtype=dtype)
            t("sdpa forward " + text, no_grad(lambda: f.scaled_dot_product_attention(q, k, v, **options)))

            def both():
                f.scaled_dot_product_attention(q, k, v, **options).backward(g)
                clear(q, k, v)
            t("sdpa both " + text, both)


def convolutions():
    for name, n, i, o, s, k, stride, groups in (
            ("64-64 56 k3", 64, 64, 64, 56, 3, 1, 1), ("256-256 14 k3", 64, 256, 256, 14, 3, 1, 1),
            ("3-64 224 k7 s2", 64, 3, 64, 224, 7, 2, 1), ("256-1024 14 k1", 64, 256, 1024, 14, 1, 1, 1),
            ("96 depthwise 56 k3", 64, 96, 96, 56, 3, 1, 96)):
        for type_name, dtype, form in (("f32", torch.float32, torch.contiguous_format),
                                       ("bf16", torch.bfloat16, torch.contiguous_format),
                                       ("bf16 channels-last", torch.bfloat16, torch.channels_last)):
            x = randn(n, i, s, s, dtype=dtype).to(memory_format=form).requires_grad_()
            w = randn(o, i // groups, k, k, dtype=dtype).to(memory_format=form).requires_grad_()
            go = lambda: f.conv2d(x, w, None, stride, k // 2, 1, groups)
            t(f"conv forward {type_name} {name}", no_grad(go))

            def both():
                go().sum().backward()
                clear(x, w)
            t(f"conv both {type_name} {name}", both)
    for name, form in (("", torch.contiguous_format), (" channels-last", torch.channels_last)):
        residual_block(name, form)


def residual_block(name, form):
    def image(*sizes):
        return randn(*sizes, dtype=torch.bfloat16).to(memory_format=form)
    x, g = image(64, 256, 56, 56).requires_grad_(), image(64, 256, 56, 56)
    layers = []
    for sizes in ((64, 256, 1, 1), (64, 64, 3, 3), (256, 64, 1, 1)):
        layers.append((image(*sizes).mul_(0.1).requires_grad_(), randn(sizes[0]).requires_grad_(),
                       randn(sizes[0]).requires_grad_()))

    def both():
        y = x
        for i, (weight, scale, shift) in enumerate(layers):
            y = f.conv2d(f.relu(y) if i else y, weight, padding=int(i == 1))
            y = f.batch_norm(y, None, None, scale, shift, training=True)
        f.relu(y + x).backward(g)
        clear(x, *(tensor for layer in layers for tensor in layer))
    t("residual block both bf16" + name, both)


def indexing():
    table = randn(50304, 768).requires_grad_()
    ids, few = torch.randint(0, 50257, (16384,), device=dev), torch.randint(0, 10, (16384,), device=dev)
    g = randn(16384, 768)
    t("embedding forward", no_grad(lambda: f.embedding(ids, table)))

    def both():
        f.embedding(ids, table).backward(g)
        clear(table)
    t("embedding both", both)
    ten = torch.zeros(10, 768, device=dev)
    t("index_add into 10 rows", lambda: torch.index_add(ten, 0, few, g))
    weights = torch.rand(64, 50257, device=dev)
    t("multinomial 64 of 50257", lambda: weights.multinomial(1))


def training():
    for width in (512, 1024):
        for type_name, dtype in (("f32", torch.float32), ("f16", torch.float16)):
            sequence = randn(96, 64, width, dtype=dtype)
            for name in ("LSTM", "GRU"):
                layer = getattr(torch.nn, name)(width, width).to(dev, dtype)

                def both():
                    layer.zero_grad()
                    layer(sequence)[0].sum().backward()
                text = f"{name} {width} {type_name}, 96 steps, batch 64, "
                t(text + "forward", no_grad(lambda: layer(sequence)))
                t(text + "both", both)
    params = [randn(1 << 20).requires_grad_() for _ in range(100)]
    for p in params:
        p.grad = randn(1 << 20)
    for fused in (False, True):
        adam = torch.optim.AdamW(params, lr=1e-3, fused=fused)
        t("AdamW of 100 x 2^20" + (" (torch fused)" if fused else ""), adam.step)
    small, layer = randn(64, 64), torch.nn.Linear(64, 64).to(dev)
    t("add of 64x64 (launch)", lambda: small + small)
    t("Linear 64 (launch)", no_grad(lambda: layer(small)))
    t("item()", lambda: small[0][0].item())


def transfers():
    pageable = torch.randn(1 << 26)
    pinned, there = pageable.pin_memory(), randn(1 << 26)
    t("to device, pageable, 256 MiB", lambda: pageable.to(dev))
    t("to device, pinned, 256 MiB", lambda: pinned.to(dev, non_blocking=True))
    t("to host, 256 MiB", lambda: there.cpu())


def steps_of_the_runtime(folder, ours):
    """runtime_bench's steps: PyTorch's side is speed_table.py's, with everything made on the GPU."""
    sys.path.insert(0, folder)
    import speed_table
    torch.set_default_device(dev)
    print("\n| step of runtime_bench --device cuda | ours us | torch us | ratio | graph |\n|---|--:|--:|--:|---|")
    for line in open(ours):
        try:
            mine = json.loads(line)
            theirs = timed(speed_table.peer_step(mine["step"]))
            best = float(mine["ns"]) / 1e3
            print(f"| {mine['step']} | {best:.1f} | {theirs:.1f} | {theirs / best:.2f} | {mine.get('graph', '')} |", flush=True)
        except Exception as error:  # noqa: BLE001
            print("|", line.strip()[:200], "|", str(error)[:80], "| | | |", flush=True)


for group in (memory, products, attention, convolutions, indexing, training, transfers):
    try:
        group()
    except Exception as error:  # noqa: BLE001
        print(group.__name__, error, file=sys.stderr)
    torch.cuda.empty_cache()
print("| step | ours us | torch us | torch / ours |\n|---|--:|--:|--:|")
for line in open(sys.argv[1]):
    one = json.loads(line)
    if "us" not in one:
        print(f"| {one['name']} | {one.get('error', '')[:160]} | | |")
        continue
    theirs = results.get(one["name"])
    print(f"| {one['name']} | {one['us']:.1f} | " + (f"{theirs:.1f} | {theirs / one['us']:.2f} |" if theirs else " | |"))
print("torch fused AdamW us:", results.get("AdamW of 100 x 2^20 (torch fused)"))
if len(sys.argv) > 3:
    steps_of_the_runtime(sys.argv[2], sys.argv[3])
