"""Writes torch_optimizers.pt: optimizers of PyTorch after three steps, and what three more make of the parameters.

Gradients before step k (k = 0, 1, ...): p / 2 + (k % 3). LBFGS takes its own from the loss sum(p * p * (1, 2, ...)).
Needs PyTorch 2.15. Use: python make_torch_optimizers.py
"""
import torch
from torch import optim
from torch.optim import lr_scheduler as schedules

MAKERS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: optim.Adam(p, lr=0.01),
    "adamw": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "lbfgs": lambda p: optim.LBFGS(p, lr=0.5, max_iter=3, history_size=4, line_search_fn="strong_wolfe"),
}


def step(optimizer, params, k):
    def loss():
        optimizer.zero_grad()
        total = sum((p * p * torch.arange(1.0, p.numel() + 1).view_as(p)).sum() for p in params)
        total.backward()
        return total

    if isinstance(optimizer, optim.LBFGS):
        optimizer.step(loss)
        return
    for p in params:
        p.grad = p.detach() / 2 + k % 3
    optimizer.step()


def run(make):
    params = [torch.nn.Parameter(torch.tensor([[1.5, -2.0, 0.25]])), torch.nn.Parameter(torch.tensor([0.5, -1.0]))]
    optimizer = make(params)
    schedule = schedules.MultiStepLR(optimizer, [2, 2, 5], gamma=0.5)
    for k in range(3):
        step(optimizer, params, k)
        schedule.step()
    saved = {"before": [p.detach().clone() for p in params], "schedule": schedule.state_dict()}
    state = optimizer.state_dict()
    saved["optimizer"] = {
        "state": {i: {n: v.clone() if isinstance(v, torch.Tensor) else v for n, v in s.items()} for i, s in state["state"].items()},
        "param_groups": [dict(g) for g in state["param_groups"]],
    }
    if isinstance(optimizer, optim.LBFGS):
        for name in ("old_dirs", "old_stps", "ro", "al"):
            saved["optimizer"]["state"][0][name] = list(state["state"][0][name])
    for k in range(3, 6):
        step(optimizer, params, k)
        schedule.step()
    saved["after"] = [p.detach().clone() for p in params]
    saved["lr"] = optimizer.param_groups[0]["lr"]
    return saved


if __name__ == "__main__":
    torch.save({name: run(make) for name, make in MAKERS.items()}, "torch_optimizers.pt")
