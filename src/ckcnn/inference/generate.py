"""Text from a trained language model, character by character, on a stream."""

# V vocabulary

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ckcnn.nn import CKTextNet, NetworkStream
from ckcnn.results.learned import network
from ckcnn.runs import checkpoints
from ckcnn.runs.folder import RunFolder

EXAMPLE = "ckcnn generate --ckpt_path runs/ptb/version_0 --prompt 'the company'"


class TextGenerator:
    """A language model with its vocabulary.

    Args:
        net: scores the next token at every step.
        vocabulary: the character of each token.
    """

    def __init__(self, net: CKTextNet, vocabulary: str) -> None:
        if len(vocabulary) != net.head.out_features:
            raise ValueError(
                f"the vocabulary has {len(vocabulary)} characters, but the network knows {net.head.out_features}"
            )
        self.net, self.vocabulary = net.eval(), vocabulary

    @classmethod
    def of(cls, path: Path) -> TextGenerator:
        """Read a run folder, or a checkpoint in one.

        Raises:
            ValueError: if it holds no language model of characters.
        """
        run = RunFolder.of(path)
        if run is None:
            raise ValueError(f"{path} is no run folder; write {EXAMPLE}")
        net = network(run)
        if not isinstance(net, CKTextNet):
            raise ValueError(f"{path} is not a language model, so it cannot write; train one with --config ptb.yaml")
        return cls(net, vocabulary_of(checkpoints.load(run.checkpoint("best"))))

    def encode(self, text: str) -> Tensor:
        """Return the tokens of a text, ``(1, T)``.

        Raises:
            ValueError: if it is empty or has a character that the network never saw.
        """
        if not text:
            raise ValueError("the prompt is empty; give at least one character to begin with, such as --prompt the")
        unknown = next((character for character in text if character not in self.vocabulary), None)
        if unknown is not None:
            known = "".join(sorted(self.vocabulary)).strip("\n")
            raise ValueError(f"the network does not know the character {unknown!r} of the prompt; it knows {known!r}")
        return torch.tensor([[self.vocabulary.index(character) for character in text]])

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
        _check(length, temperature, top_k, len(self.vocabulary))
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


def vocabulary_of(checkpoint: Mapping[str, Any]) -> str:
    """Return the characters of a checkpoint's tokens, in their order.

    They are in its preprocessing. Checkpoints of an earlier version have none, and all are of Penn Treebank.
    """
    preprocessing = checkpoint.get("preprocessing")
    if isinstance(preprocessing, Mapping) and (vocabulary := preprocessing.get("vocabulary")):
        return "".join(vocabulary)
    from ckcnn.datamodules.penn_treebank import VOCABULARY  # loads the data modules, which nothing else here needs

    return VOCABULARY


def _check(length: int, temperature: float, top_k: int | None, characters: int) -> None:
    if length < 1:
        raise ValueError(f"length must be at least 1, the number of characters to write, got {length}")
    if not 0 <= temperature < math.inf:
        raise ValueError(f"temperature must be 0 (the likeliest character) or a positive number, got {temperature:g}")
    if top_k is not None and not 1 <= top_k <= characters:
        raise ValueError(f"top_k must lie in 1 ... {characters}, the characters that the network knows, got {top_k}")
