# The program of 09_from_pytorch.cpp in PyTorch: the two print the same text.
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.drop(F.relu(self.hidden(x))))


torch.manual_seed(0)
x = torch.randn(120, 4)
y = x[:, :3].argmax(dim=1)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)

net = Net()
print(net)
optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=5)

for epoch in range(5):
    total = 0.0
    for inputs, labels in loader:
        loss = F.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * inputs.size(0)
    schedule.step()
    print(f"epoch {epoch}: loss {total / len(x):.4f}")

net.eval()
with torch.no_grad():
    print(net(x[:2]))
print(net(x).sum())
if len(sys.argv) > 1:
    torch.save(net.state_dict(), sys.argv[1])
