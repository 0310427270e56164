"""A model of one's own: a small convolutional autoencoder on random pictures."""

import torch
from torch import nn


class Autoencoder:
    """Made once a trial, in the trial's own process, with the seed and the parameters of the sweep."""

    def __init__(self, *, seed: int, batch_size: int, channels: int = 8) -> None:
        self.seed, self.batch_size, self.channels = seed, batch_size, channels

    def prepare(self, device: torch.device, target: str) -> None:
        """Build on the CPU from the seed, then move."""
        torch.manual_seed(self.seed)
        down = nn.Conv2d(3, self.channels, 3, stride=2, padding=1)
        up = nn.ConvTranspose2d(self.channels, 3, 2, stride=2)
        self.model = nn.Sequential(down, nn.ReLU(), up).to(device)
        self.pictures = torch.rand(self.batch_size, 3, 32, 32)
        self.device = device
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self) -> torch.Tensor:
        """Do one training step; return the loss without waiting for it."""
        pictures = self.pictures.to(self.device)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(pictures), pictures)
        loss.backward()
        self.optimizer.step()
        return loss.detach()
