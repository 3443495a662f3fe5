"""Your own network: any function from the number of outputs to an nn.Module."""

from torch import Tensor, nn

from fedskew import Experiment, Labels, Results


class Small(nn.Module):
    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, padding=1)
        self.head = nn.Linear(8 * 16, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = nn.functional.max_pool2d(self.conv(x).relu(), 2)
        logits: Tensor = self.head(x.flatten(1))
        return logits


def main(rounds: int = 10) -> Results:
    split = Labels(clients=10, per_client=2)
    return Experiment(data="digits", split=split, model=Small, method="fedlc+fedprox", rounds=rounds).fit()


if __name__ == "__main__":
    print(main())
