"""Queries that no tool answers: small talk of our own, and words that do not exist."""

import random

SMALL_TALK = (
    "hum a tune",
    "what's your name",
    "tell me a joke about cats",
    "who am i",
    "good morning",
    "write a poem about autumn rain",
    "are you a robot",
    "do you like pizza",
    "what is the meaning of life",
    "sing me a song",
    "how are you feeling today",
    "i am bored",
    "explain why the sky is blue",
    "what would you do with a million",
    "make up a story about a dragon",
    "is it ok to be sad sometimes",
    "thanks, that was great",
    "tell me something interesting",
    "what is your favourite colour",
    "give me a riddle",
    "can you keep a secret",
    "what makes a good friend",
    "compliment me",
    "let's play a word game",
    "why do people dream",
    "how old are you",
    "pretend to be a pirate",
    "what should i name my goldfish",
    "is there life on other planets",
    "count to ten in a funny voice",
)
_SYLLABLES = ("zor", "blip", "qua", "vrr", "plo", "nk", "xil", "mur", "tav", "eef", "gro", "shu", "pim", "dal", "wex")


def stray(draw: random.Random) -> str:
    """Small talk, or two to five words of random syllables."""
    if draw.random() < 0.5:
        return draw.choice(SMALL_TALK)
    return " ".join("".join(draw.choices(_SYLLABLES, k=draw.randint(1, 3))) for _ in range(draw.randint(2, 5)))
