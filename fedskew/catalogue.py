"""What the presets are and where they come from, in words. Nothing here imports torch."""

from typing import NamedTuple


class Entry(NamedTuple):
    """One published method or a variant of it."""

    paper: str
    year: int
    about: str


WANG_ABC = "Wang et al., FedABC"
ZHANG = "Zhang et al., FedLC"
ZHU = "Zhu et al., FedOVA"
LI_MAP = "Li et al., MAP"
CHOU = "Chou et al., GRP-FED"
REDDI = "Reddi et al., FedOpt"
LI_Q = "Li et al., q-FFL"
LIANG = "Liang et al., LG-FedAvg"
FALLAH = "Fallah et al., Per-FedAvg"

METHODS: dict[str, Entry] = {
    "fedavg": Entry("McMahan et al., FedAvg", 2017, "local epochs, then the mean"),
    "local": Entry("", 2017, "every client for itself"),
    "fedabc": Entry(WANG_ABC, 2023, "a yes-or-no question per class, easy pairs dropped, hard ones weighted"),
    "fedabc-plain": Entry(WANG_ABC, 2023, "FedABC with plain binary cross-entropy"),
    "fedabc-drop": Entry(WANG_ABC, 2023, "FedABC that only drops easy pairs"),
    "fedabc-focal": Entry(WANG_ABC, 2023, "FedABC that only weights hard pairs"),
    "fedlc": Entry(ZHANG, 2022, "softmax over the client's classes with margins by their counts"),
    "masked-softmax": Entry(ZHANG, 2022, "FedLC without margins: missing classes left out"),
    "fedova": Entry(ZHU, 2021, "a binary network per class, trained where the class is"),
    "fedova-async": Entry(ZHU, 2021, "FedOVA with components mixed in as they arrive"),
    "fedrs": Entry("Li and Zhan, FedRS", 2021, "logits of missing classes scaled down in training"),
    "fedphp": Entry(
        "Li et al., FedPHP", 2021, "a private model inherits from the local ones and teaches them"
    ),
    "map": Entry(LI_MAP, 2024, "FedRS for the upload, then FedPHP for the client"),
    "map-released": Entry(LI_MAP, 2024, "MAP with the stages of the authors' code"),
    "grpfed": Entry(CHOU, 2021, "fair weights, and a local extractor kept near the global one"),
    "grpfed-aggregation": Entry(CHOU, 2021, "GRP-FED's fair weights alone"),
    "fedprox": Entry("Li et al., FedProx", 2020, "a pull towards the received model"),
    "scaffold": Entry("Karimireddy et al., SCAFFOLD", 2020, "steps corrected by control variates"),
    "fednova": Entry("Wang et al., FedNova", 2020, "changes normalised by the steps they took"),
    "feddyn": Entry("Acar et al., FedDyn", 2021, "a pull corrected by all former drifts"),
    "moon": Entry("Li et al., MOON", 2021, "features near the global model's, off the previous one's"),
    "fedmmd": Entry("Yao et al., FedMMD", 2018, "features distributed like the received model's"),
    "fedadam": Entry(REDDI, 2021, "Adam on the server"),
    "fedyogi": Entry(REDDI, 2021, "Yogi on the server"),
    "fedadagrad": Entry(REDDI, 2021, "Adagrad on the server"),
    "fedavgm": Entry("Hsu et al., FedAvgM", 2019, "momentum on the server"),
    "fedaws": Entry("Yu et al., FedAwS", 2020, "rows of the averaged head pushed apart"),
    "afl": Entry("Mohri et al., AFL", 2019, "weights rise with the loss, on the simplex"),
    "qffl": Entry(LI_Q, 2020, "weights are losses to the power q"),
    "qfedavg": Entry(LI_Q, 2020, "q-FFL in its original form"),
    "fedper": Entry("Arivazhagan et al., FedPer", 2019, "private heads"),
    "fedrep": Entry("Collins et al., FedRep", 2021, "private heads, trained before the body"),
    "lg-fedavg": Entry(LIANG, 2020, "private bodies, the last two layers shared"),
    "lg-head": Entry(LIANG, 2020, "private bodies, the head shared"),
    "fedproto": Entry(
        "Tan et al., FedProto", 2022, "private networks that share the mean features of classes"
    ),
    "fedrod": Entry("Chen and Chao, FedRoD", 2022, "a balanced shared head and a personal one beside it"),
    "ditto": Entry("Li et al., Ditto", 2021, "a private network, pulled towards the global one"),
    "feddml": Entry("Shen et al., FML", 2020, "a private network and the uploaded one teach each other"),
    "pfedme": Entry("Dinh et al., pFedMe", 2020, "a private network that the uploaded one follows"),
    "per-fedavg": Entry(FALLAH, 2020, "a start from which one step at home goes far"),
    "per-fedavg-hf": Entry(FALLAH, 2020, "Per-FedAvg with its Hessian-free correction"),
}
