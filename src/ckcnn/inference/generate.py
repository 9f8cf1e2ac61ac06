"""Text from a trained language model, character by character, on a stream."""

# V vocabulary

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import torch
from torch import Tensor

from ckcnn.datamodules import PennTreebank
from ckcnn.inference.intake import encode
from ckcnn.inference.loading import load
from ckcnn.nn import CKTextNet, NetworkStream

EXAMPLE = "ckcnn generate --ckpt_path runs/ptb/version_0 --prompt 'the company'"


class TextGenerator:
    """A language model with its vocabulary.

    Args:
        net: scores the next token at every step.
        vocabulary: the character of each token.
        spelling: replacements for characters that the text of training spells differently.
    """

    def __init__(self, net: CKTextNet, vocabulary: str, spelling: Mapping[str, str] = MappingProxyType({})) -> None:
        if len(vocabulary) != net.head.out_features:
            raise ValueError(
                f"the vocabulary has {len(vocabulary)} characters, but the network knows {net.head.out_features}"
            )
        self.net, self.vocabulary, self.spelling = net.eval(), vocabulary, spelling

    @classmethod
    def of(cls, path: Path) -> TextGenerator:
        """Read a run folder, a checkpoint, or an exported folder.

        A checkpoint of an earlier version has no vocabulary; all such models were trained on Penn Treebank.

        Raises:
            ValueError: if it holds no language model of characters.
        """
        model = load(path)
        if not isinstance(model.net, CKTextNet):
            raise ValueError(f"{path} is not a language model, so it cannot write; train one with --config ptb.yaml")
        described = model.trained or PennTreebank
        return cls(model.net, described.vocabulary, described.spelling)

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, ``(1, T)``.

        Raises:
            ValueError: if it is empty or has a character that the network never saw.
        """
        return encode(text, self.vocabulary, self.spelling)[None]

    def generate(
        self, prompt: str, length: int, temperature: float = 1.0, top_k: int | None = None, seed: int = 0
    ) -> Iterator[str]:
        """Return the characters that follow the prompt, one by one.

        Args:
            prompt: the text to continue.
            length: number of characters.
            temperature: below 1 prefers likely characters, above 1 evens them out; 0 takes the likeliest.
            top_k: draw from this many of the likeliest characters; by default from all.
            seed: of the random numbers; the same seed writes the same text.

        Raises:
            ValueError: if an argument does not fit, before anything is written.
        """
        _check(length, temperature, top_k, len(self.vocabulary), seed)
        return self._characters(self.encode(prompt), length, Sampler(temperature, top_k, seed))

    def _characters(self, tokens: Tensor, length: int, sampler: Sampler) -> Iterator[str]:
        stream = NetworkStream(self.net)
        for _ in range(length):
            tokens = sampler.draw(stream.push(tokens)[0, :, -1]).view(1, 1)
            yield self.vocabulary[int(tokens)]


class Sampler:
    """Draws the next token from scores; arguments as in `TextGenerator.generate`."""

    def __init__(self, temperature: float, top_k: int | None, seed: int) -> None:
        self.temperature, self.top_k = temperature, top_k
        self.generator = torch.Generator().manual_seed(seed)

    def draw(self, scores: Tensor) -> Tensor:
        """Return one token for scores ``(V,)``."""
        if self.temperature == 0:
            return scores.argmax()
        if self.top_k is not None:
            scores = scores.masked_fill(scores < scores.topk(self.top_k).values[-1], -math.inf)
        # In float64, and from the largest score down: small temperatures divide to large numbers.
        odds = ((scores.double() - scores.max()) / self.temperature).softmax(0)
        return torch.multinomial(odds, 1, generator=self.generator)


def _check(length: int, temperature: float, top_k: int | None, characters: int, seed: int) -> None:
    if length < 1:
        raise ValueError(f"length must be at least 1, the number of characters to write, got {length}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be 0 (the likeliest character) or a positive number, got {temperature:g}")
    if top_k is not None and not 1 <= top_k <= characters:
        raise ValueError(f"top_k must lie in 1 ... {characters}, the characters that the network knows, got {top_k}")
    if not 0 <= seed < 2**63:
        raise ValueError(f"seed must lie in 0 ... 2**63 - 1, got {seed}")
