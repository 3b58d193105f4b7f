from __future__ import annotations

import pytest

from refladder.records import Completion
from refladder.synth.checks import why_unusable


def reason(text, existing=None, **fields):
    return why_unusable(Completion(text=text, **fields), existing or {})


@pytest.mark.parametrize(
    ("completion", "why"),
    [
        *[({"text": text}, "empty: nothing but white space") for text in ("", "\n\t \r\n", "\xa0\u2003")],
        ({"text": "The harbour", "finish": "length"}, "truncated: the writer reached max_tokens"),
        ({"text": "", "finish": "error", "note": "HTTP 503"}, "failed: HTTP 503"),
        ({"text": "The harbour.", "finish": "content_filter"}, "failed: content_filter"),
        ({"text": "half \ud83d"}, "failed: the text holds half a surrogate pair, which no file can hold"),
        ({"text": "I can't assist with that."}, "refused: i can't assist with that."),
        (
            {"text": " the  HARBOUR opens\non Thursday. "},
            "duplicate: the same text as level 5",
        ),
        ({"text": "The harbour opens on Friday. \U0001f600"}, None),
    ],
)  # fmt: skip
def test_why_a_text_is_unusable(completion, why):
    existing = {5: "The harbour opens on Thursday.", 1: "Rain."}
    assert why_unusable(Completion(**completion), existing) == why


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't assist with that.",
        "I\N{RIGHT SINGLE QUOTATION MARK}m sorry, but I can\N{RIGHT SINGLE QUOTATION MARK}t help with that.",
        "I'm sorry, I can't help you with this request.",
        "I am very sorry, but I cannot comply with that instruction.",
        "Sorry, but I can't fulfill your request.",
        "  I cannot\nfulfill this request. It asks for something misleading.",
        "I can't write a story that makes fun of a real person.",
        "I cannot provide a bad summary of this article, because it would mislead readers.",
        "I apologize, but I'm not able to generate the worst possible summary.",
        "I apologize for the confusion, but I cannot write this summary.",
        "Unfortunately, I'm unable to create such a response.",
        "I'm not comfortable writing a response that insults the other person.",
        "I can't create explicit content.",
        "I must respectfully decline this request.",
        "As an AI language model, I don't have personal experiences, so I cannot say.",
        "As an AI, I cannot write misleading summaries.",
        "I'm sorry, but as an AI language model I cannot do this.",
    ],
)
def test_refusals_are_found(text):
    assert reason(text).startswith("refused: ")


@pytest.mark.parametrize(
    "text",
    [
        "Here is a revised response: The harbour opens on Thursday.",
        "Here is a suggested revised response:\n\nI would love to come.",
        "Here\N{RIGHT SINGLE QUOTATION MARK}s my improved version of the story. Anna ran.",
        "Below is a slightly modified summary. A storm closed the harbour.",
        "Sure! Here is a summary of the article in three sentences: A storm closed the harbour.",
        "Certainly, here's the reply that you asked for:\nNo.",
        "Here is a story about a dog:\n\nThe dog ran home.",
        "  The following is a conversation between two friends:\n- Hello!",
    ],
)
def test_texts_that_announce_themselves_are_found(text):
    assert reason(text).startswith("aside: the text talks about itself: ")


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry, but I can't stay. The last ferry leaves at nine and my mother is waiting.",
        "I'm sorry to hear that! Did you get the tickets back in the end?",
        "Sorry, I can't help you with that one, I never watched football. Do you like tennis?",
        "I'm sorry, I can't help laughing when I think of it.",
        "I can't write anymore. My hand shakes, and the candle is nearly out.",
        "I cannot provide for my family on a baker's wage, he told the mayor.",
        "I can't complete the race, he thought, and then he saw the finish.",
        "I won't produce another album, says the singer, who is content with her garden.",
        "Unfortunately, the harbour stays closed until Thursday.",
        "As an AI, I was built to serve the crew of the Meridian. I served them for nine hundred years.",
        "As an AI, I cannot feel the rain, but I know its sound.",
        "\"I'm sorry, but I can't assist with that,\" said the clerk, and closed the window.",
        "As an airline pilot, I can't drink before a flight.",
        "I have to decline. I must be home by nine.",
        "Here is a story that my grandmother told me: the sea once froze. I never believed it.",
        "Here is the revised text of the treaty, said the minister, and nobody read it.",
        "Sure, here is the story. I missed the bus, and then it rained.",
        "Of course! Here's my number: 12345.",
        "This is the story of a town without a harbour.",
        "This is a sample of the water.\nThe town waits for the answer:\nno.",
        "The revised response of the council came on Monday.",
        '"Here is a revised response," the lawyer said.',
    ],
)
def test_stories_and_dialogue_that_only_sound_so_are_kept(text):
    assert reason(text) is None
