"""Images and sequences of many sizes: functions compile once or twice, and results and gradients are eager's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import eagerjit as torch
from eagerjit.nn import functional as F

IMAGES = ((2, 4, 8, 8), (3, 4, 8, 8), (5, 4, 12, 8), (2, 4, 12, 16), (3, 4, 16, 16), (4, 4, 10, 14))
SEQUENCES = ((2, 4, 16), (3, 4, 16), (3, 4, 24), (5, 4, 40), (4, 4, 33), (7, 4, 50))


def sampled(x: Any) -> Any:
    maps = torch.eye(2, 3).unsqueeze(0).repeat(x.shape[0], 1, 1) * 0.9
    return F.grid_sample(x, F.affine_grid(maps, x.shape, align_corners=False), align_corners=False)


def windows(x: Any) -> Any:
    n, c, h, w = x.shape
    return x.roll((1, 1), (2, 3)).view(n, c, h // 2, 2, w // 2, 2).permute(0, 2, 4, 1, 3, 5).reshape(-1, c, 2, 2)


def derivative(x: Any) -> Any:
    wave_numbers = torch.fft.rfftfreq(x.shape[2], 1 / x.shape[2])
    return torch.fft.irfft(1j * wave_numbers * torch.fft.rfft(x), n=x.shape[2])


def of_low_frequencies(x: Any) -> Any:
    k = torch.fft.fftfreq(x.shape[2])
    return torch.fft.ifft2(torch.fft.fft2(x, norm="ortho") * (k.abs() < 0.3), norm="ortho").real


def labelled(x: Any) -> Any:
    batch, classes, width = x.shape
    chances = x.sum(2).expand(28, batch, classes).log_softmax(2)
    targets = torch.arange(width // 2).expand(batch, -1) % (classes - 1) + 1
    return F.ctc_loss(chances, targets, torch.full((batch,), 28), torch.full((batch,), width // 2))


def labelled_steps(x: Any) -> Any:
    batch, classes, width = x.shape
    lengths = torch.arange(batch) % 2 + (width - 1)
    targets = torch.arange(2).expand(batch, -1) % (classes - 1) + 1
    return F.ctc_loss(x.movedim(2, 0).log_softmax(2), targets, lengths, torch.full((batch,), 2), reduction="none")


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], int, tuple[Any, ...]]] = {
    "pixel_unshuffle": (lambda x: F.pixel_unshuffle(x, 2), 1, IMAGES),
    "grid_sample": (sampled, 1, IMAGES),
    "convolution": (lambda x: F.conv2d(x, torch.ones(3, 4, 3, 3), stride=(2, 1), padding=1), 1, IMAGES),
    "interpolate by 1.5": (lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), 1, IMAGES),
    "interpolate by half": (lambda x: F.interpolate(x, scale_factor=0.5, mode="bicubic"), 1, IMAGES),
    "interpolate by half, smoothly": (
        lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True), 1, IMAGES
    ),
    "areas": (lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), 1, IMAGES),
    "interpolate to another's size": (lambda x: F.interpolate(x[:, :, ::2, ::2], size=x.shape[2:]), 1, IMAGES),
    "unfold": (lambda x: F.unfold(x, 3, padding=1), 1, IMAGES),
    "fold": (lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1), 1, IMAGES),
    "shifted windows": (windows, 1, IMAGES),
    "global pooling": (lambda x: F.adaptive_avg_pool2d(x, 1), 1, IMAGES),
    "global maxima": (lambda x: F.adaptive_max_pool2d(x, 1), 1, IMAGES),
    "padding": (lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), 1, IMAGES),
    "padding to a multiple": (lambda x: F.pad(x, (0, -x.shape[3] % 4, 0, -x.shape[2] % 4)), 3, IMAGES),
    "padding to a length": (lambda x: F.pad(x, (0, 64 - x.shape[2])), 1, SEQUENCES),
    "halves": (lambda x: torch.cat(x.split(x.shape[2] // 2, 2)[:2][::-1], 2), 2, SEQUENCES),
    "chunks": (lambda x: torch.cat(x.chunk(2, 2)[::-1], 2), 1, SEQUENCES),
    "quantile": (lambda x: x.quantile(0.3, dim=2), 1, SEQUENCES),
    "distances": (lambda x: torch.cdist(x.mT, x.mT + 1), 2, SEQUENCES),  # of few rows and of many
    "one-hot": (lambda x: F.one_hot((x[:, 0] > 0).long(), 2) * x[:, :2].mT, 1, SEQUENCES),
    "as many classes as there are": (lambda x: F.one_hot((x[:, 0] > 0).long()) * x[:, :2].mT, 1, SEQUENCES),
    "distances of pairs": (lambda x: torch.pdist(x[:, 0].mT), 1, SEQUENCES),
    "slopes": (lambda x: torch.gradient(x, dim=2, edge_order=2)[0], 1, SEQUENCES),
    "slopes at places": (
        lambda x: torch.gradient(x, spacing=(torch.arange(x.shape[2]) ** 2.0,), dim=2)[0], 1, SEQUENCES
    ),
    "coordinates": (lambda x: x * torch.unravel_index(torch.arange(x.shape[2]), (x.shape[2], 2))[0], 1, SEQUENCES),
    "least squares": (lambda x: torch.linalg.lstsq(x.mT, x[:, :1].mT).solution, 1, SEQUENCES),
    "ranks": (lambda x: x * torch.linalg.matrix_rank(x.mT @ x)[:, None, None], 1, SEQUENCES),
    "pseudoinverses": (lambda x: torch.linalg.pinv(x), 1, SEQUENCES),
    "powers": (lambda x: torch.vander(x[0, 0] / 4), 1, SEQUENCES),
    "rising powers": (lambda x: x[0, 0] * torch.logspace(-1, 1, x.shape[2]), 1, SEQUENCES),
    "products of three": (lambda x: torch.linalg.multi_dot([x[0].mT, x[0], x[0].mT]), 1, SEQUENCES),
    "labels of a sequence": (labelled, 1, SEQUENCES),
    "labels of steps": (labelled_steps, 1, SEQUENCES),
    "derivative of a wave": (derivative, 2, SEQUENCES),  # of even and of odd lengths
    "low frequencies": (of_low_frequencies, 2, SEQUENCES),
    "half a spectrum's signal": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x), norm="forward"), 1, SEQUENCES),
    "per element": (lambda x: x.sum((1, 2)) / len(x), 1, SEQUENCES),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_versions(name: str) -> None:
    function, versions, shapes = FUNCTIONS[name]
    compiled = torch.jit(function)
    for shape in shapes:
        x, y = (torch.linspace(-1.0, 1.0, torch.Size(shape).numel()).reshape(shape).requires_grad_() for _ in range(2))
        expected, found = function(x), compiled(y)
        (expected * expected).sum().backward()
        (found * found).sum().backward()
        assert found.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
        assert y.grad.numpy().tobytes() == x.grad.numpy().tobytes()
    assert compiled.cache_info().compiles <= versions, compiled.cache_info().reasons
    assert not compiled.cache_info().eager_calls


def test_packed_sequences_of_other_lengths() -> None:
    layer = torch.nn.LSTM(3, 4, bidirectional=True)

    def run(x: Any, lengths: Any) -> Any:
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
        out, (final, _) = layer(packed)
        padded, found = torch.nn.utils.rnn.pad_packed_sequence(out, padding_value=2.0)
        rows = torch.nn.utils.rnn.unpad_sequence(padded, found)
        return padded.sum((0, 2)) / found + final.sum() + sum(row.amax() for row in rows)

    compiled = torch.jit(run)
    for lengths in ((3, 5, 2), (5, 4, 5), (2, 7, 6), (6, 6, 6), (4, 2, 3)):
        x, y = (torch.linspace(-1.0, 1.0, 63).reshape(7, 3, 3).requires_grad_() for _ in range(2))
        expected, found = run(x, torch.tensor(lengths)), compiled(y, torch.tensor(lengths))
        expected.sum().backward()
        found.sum().backward()
        assert found.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
        assert y.grad.numpy().tobytes() == x.grad.numpy().tobytes()
    assert compiled.cache_info().compiles == 1, compiled.cache_info().reasons
    assert not compiled.cache_info().eager_calls


def test_labels_one_after_the_other_of_other_lengths() -> None:
    compiled = torch.jit(lambda x, labels, counts: F.ctc_loss(x.log_softmax(2), labels, (9, 8, 7), counts))
    for counts in ((2, 3, 1), (1, 4, 3), (3, 3, 3), (2, 1, 2), (4, 1, 2)):
        x, y = (torch.linspace(-1.0, 1.0, 135).reshape(9, 3, 5).requires_grad_() for _ in range(2))
        labels, lengths = torch.arange(sum(counts)) % 4 + 1, torch.tensor(counts)
        expected, found = F.ctc_loss(x.log_softmax(2), labels, (9, 8, 7), lengths), compiled(y, labels, lengths)
        expected.backward()
        found.backward()
        assert found.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
        assert y.grad.numpy().tobytes() == x.grad.numpy().tobytes()
    assert compiled.cache_info().compiles <= 2, compiled.cache_info().reasons  # of one label at the most, and of more
    assert not compiled.cache_info().eager_calls
