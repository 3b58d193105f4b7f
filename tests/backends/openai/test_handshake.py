import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from asked import LABELS, question, questions, to
from toy_model import encode, render
from toy_server import (
    LLAMA_CPP_PYTHON,
    LLAMA_SERVER,
    OPENAI,
    SGLANG,
    TEXT_ONLY,
    TRANSFORMERS,
    VLLM,
    VLLM_OLDER,
)

from refladder.backends.openai.client import Capabilities
from refladder.backends.openai.handshake import from_text, to_text
from refladder.errors import BackendUnavailableError, LabelsUnavailableError
from refladder.testing import check_backend

EXACT = {
    "exact:token-ids": VLLM,
    "exact:score": SGLANG,
    "exact:vocabulary": LLAMA_SERVER,
}


def mode_of(backend):
    return backend.fingerprint.rpartition(" ")[2]


@pytest.mark.parametrize(("mode", "quirks"), EXACT.items())
def test_exact_modes_read_the_models_own_log_probabilities(serve, mode, quirks):
    server = serve(quirks)
    backend = to(server)
    assert mode_of(backend) == mode
    asked = questions(6)
    for prompt, reading in zip(asked, backend.read_labels(asked, LABELS), strict=True):
        assert reading.logprobs == pytest.approx(server.exact(prompt, LABELS), abs=1e-3)
        assert reading.mass == pytest.approx(math.fsum(map(math.exp, reading.logprobs)))
        assert reading.note is None


@pytest.mark.parametrize(
    ("quirks", "mode"),
    [
        (OPENAI, "top20"),
        (replace(VLLM, tokenize=""), "top20-completed"),
        (LLAMA_CPP_PYTHON, "top115-completed"),  # its whole vocabulary
        (replace(LLAMA_CPP_PYTHON, form="ignored"), "top115"),
        (TEXT_ONLY, "sample20"),
        (TRANSFORMERS, "sample1-fixed"),
        (replace(OPENAI, chat_logprobs="refused"), "sample20"),
        (replace(OPENAI, only_9999=True), "sample20"),
        (replace(VLLM, thinks=True), "sample20"),
        (replace(LLAMA_CPP_PYTHON, chat_logprobs="silent"), "sample20"),
        (VLLM_OLDER, "top20-completed"),
        (replace(OPENAI, top_limit=5), "top5"),
    ],
)
def test_the_best_mode_that_holds_is_taken(serve, quirks, mode):
    assert mode_of(to(serve(quirks))).startswith(mode)


@pytest.mark.parametrize("quirks", [VLLM, SGLANG, LLAMA_SERVER, OPENAI, TEXT_ONLY, TRANSFORMERS])
def test_the_contract_of_a_backend(serve, quirks):
    check_backend(to(serve(quirks)))


def worse_of(server, prompt):
    """Log-probability of Worse (W, orse) or worse; other spellings are under 0.1 % and left out."""
    ids = encode(render(prompt.messages))
    return math.log(
        math.fsum(math.exp(server.model.label(ids, spelling)) for spelling in ("Worse", "worse"))
    )


def test_top_with_a_server_that_continues_an_answer_is_exact_for_labels_of_several_tokens(serve):
    server = serve(replace(VLLM, tokenize="", top_limit=None))
    backend = to(server)
    for prompt, reading in zip(
        questions(4), backend.read_labels(questions(4), LABELS), strict=True
    ):
        assert reading.logprobs[1] == pytest.approx(worse_of(server, prompt), abs=1e-2)
        better = [
            server.model.label(encode(render(prompt.messages)), word)
            for word in ("Better", "better", "BETTER")
        ]
        spaced = server.model.label(encode(render(prompt.messages)), " Better")
        total = math.log(math.fsum(map(math.exp, [*better, spaced])))
        assert reading.logprobs[0] == pytest.approx(total, abs=1e-2)


def test_top_with_a_server_that_keeps_to_a_form_is_exact_for_labels_of_several_tokens(serve):
    server = serve(LLAMA_CPP_PYTHON)
    backend = to(server)
    assert backend.capabilities.completion == "grammar"
    for prompt, reading in zip(
        questions(4), backend.read_labels(questions(4), LABELS), strict=True
    ):
        assert reading.logprobs[1] == pytest.approx(worse_of(server, prompt), abs=1e-2)
        assert (reading.exactness, reading.note) == ("exact", None)


@pytest.mark.parametrize("form", ["ignored", "biased"])
def test_a_form_that_is_ignored_or_whose_values_are_biased_is_not_used(serve, form):
    server = serve(replace(LLAMA_CPP_PYTHON, form=form))
    backend = to(server)
    assert backend.fingerprint.endswith(" top115")
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert reading.note == "label 'Worse' read from its beginning 'W', an upper bound"


def test_top_without_it_tells_that_a_beginning_is_an_upper_bound(serve):
    server = serve(OPENAI)
    (reading,) = to(server).read_labels([question("x")], LABELS)
    ids = encode(render(question("x").messages))
    assert reading.logprobs[1] == pytest.approx(server.model.label(ids, "W"), abs=1e-9)
    assert reading.note == "label 'Worse' read from its beginning 'W', an upper bound"


def test_a_flat_distribution_is_unreadable_and_not_a_number(serve):
    server = serve(replace(OPENAI, flat=True))
    (reading,) = to(server, mode="top").read_labels([question("x")], LABELS)
    assert reading.logprobs is None
    assert (
        "outside the top 20: p <= " in reading.reason
        or "no label among the top 20" in reading.reason
    )


def test_sampled_shares_lie_within_their_binomial_error(serve):
    server = serve(TEXT_ONLY)
    backend = to(server, samples=200)
    asked = questions(6)
    for prompt, reading in zip(asked, backend.read_labels(asked, LABELS), strict=True):
        ids = encode(render(prompt.messages))
        spellings = (
            (("Better", "better", " Better", "BETTER")),
            ("Worse",),
            ("Similar", " Similar"),
        )
        exact = [
            math.fsum(math.exp(server.model.label(ids, word)) for word in words)
            for words in spellings
        ]
        for value, share in zip(reading.logprobs, exact, strict=True):
            error = math.sqrt(share * (1 - share) / 200)
            # 4 standard errors and the smoothing; the answer must also end there, which costs up to 3 %
            assert abs(math.exp(value) - share) < 4 * error + 1 / 200 + 0.03


def test_several_answers_in_one_request_where_they_are_several(serve):
    server = serve(replace(TEXT_ONLY, several="yes"))
    backend = to(server, samples=7)
    assert backend.capabilities.several
    server.asked.clear()
    backend.read_labels(questions(3), LABELS)
    assert [body["n"] for _, body in server.asked] == [7, 7, 7]


def test_a_fixed_server_is_asked_once_and_says_so(serve):
    server = serve(TRANSFORMERS)
    backend = to(server)
    assert "votes, not probabilities" in backend.notice
    server.asked.clear()
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert len(server.asked) == 1
    assert "one vote, not a probability" in reading.note


def test_every_answer_that_says_no_label_is_counted_by_its_reason(serve):
    answers = [
        {"message": {"content": "Better"}, "finish_reason": "stop"},
        {"message": {"content": "worse."}, "finish_reason": "stop"},
        {"message": {"content": "Mejor"}, "finish_reason": "stop"},
        {"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"},
        {"message": {"content": ""}, "finish_reason": "content_filter"},
        {"message": {"content": "Well, let me"}, "finish_reason": "length"},
        {},
        {"message": {"content": '{"verdict": "Better"}'}, "finish_reason": "stop"},
    ]
    server = serve(replace(TEXT_ONLY, answer=lambda _messages, seed: answers[seed % 8]))
    backend = to(server, samples=8)
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert [math.exp(value) for value in reading.logprobs] == pytest.approx(
        [2 / 3, 1 / 3, 0], abs=1e-20
    )
    assert reading.mass == pytest.approx(3 / 8)
    assert reading.exactness == "sampled"
    assert reading.note.startswith("5 of 8 answers unparsed: ")
    counted = Counter(
        {name: number for name, number in backend.counts.items() if name.startswith("answer: ")}
    )
    assert counted == {
        "answer: no label in the answer": 1,
        "answer: refusal": 1,
        "answer: content filter": 1,
        "answer: cut before a label": 1,
        "answer: empty answer": 1,
    }


def test_a_model_that_answers_in_another_language(serve):
    answer = {"message": {"content": "Mejor"}, "finish_reason": "stop"}
    backend = to(serve(replace(TEXT_ONLY, answer=lambda _messages, _seed: answer)))
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert reading.logprobs is None
    assert reading.reason == "1 of 1 answers unparsed: 1 x no label in the answer, e.g. 'Mejor'"


@pytest.mark.parametrize(
    ("quirks", "mode", "reason"),
    [
        (
            OPENAI,
            "exact",
            "'toy' does not support the requested mode exact .exact: no token ids of prompts",
        ),
        (TRANSFORMERS, "top", "top: log-probabilities were asked for and not returned"),
        (
            replace(OPENAI, chat_logprobs="refused"),
            "top",
            "logprobs are not supported with this model",
        ),
        (
            replace(VLLM, thinks=True),
            "exact",
            "the model thinks before it answers, so its first token is not a label",
        ),
        (
            replace(VLLM, token_prompts=False),
            "exact",
            "completions of token ids: the server answered 400",
        ),
    ],
)
def test_a_mode_that_is_demanded_and_impossible(serve, quirks, mode, reason):
    with pytest.raises(LabelsUnavailableError, match=reason):
        _ = to(serve(quirks), mode=mode).fingerprint


def test_the_reasons_against_better_modes_are_told(serve):
    backend = to(serve(TRANSFORMERS))
    assert backend.notice.endswith(
        ": one answer a question, the same every time: votes, not probabilities"
    )  # one plain sentence
    reasons = backend.read_mode["not_better"]
    assert reasons[0].startswith("exact: no token ids")
    assert any("top: log-probabilities were asked for and not returned" in each for each in reasons)


def test_the_dialect_of_newer_models(serve):
    server = serve(replace(TEXT_ONLY, length_field="max_completion_tokens", tempered=False))
    backend = to(server)
    assert backend.capabilities.dialect.length_field == "max_completion_tokens"
    assert not backend.capabilities.dialect.tempered
    assert backend.read_labels([question("x")], LABELS)[0].logprobs is not None


def test_a_model_whose_thoughts_are_not_shown_gets_room_for_them(serve):
    def answer(_messages, _seed):
        room = server.asked[-1][1]["max_tokens"]
        content = "" if room < 100 else "Better"
        return {
            "message": {"content": content},
            "finish_reason": "length" if room < 100 else "stop",
        }

    server = serve(replace(TEXT_ONLY, answer=answer))
    backend = to(server)
    assert backend.capabilities.thinks
    assert not backend.capabilities.fixed  # 20 answers without a word are not 20 equal answers
    assert backend.read_labels([question("x")], LABELS)[0].logprobs is not None
    assert server.asked[-1][1]["max_tokens"] == 4096
    assert (
        to(server, answer_tokens="200").read_labels([question("x")], LABELS)[0].logprobs is not None
    )
    assert server.asked[-1][1]["max_tokens"] == 200


JUDGING = "Better, Worse or Similar?"  # at the end of the rows' prompts
HANDSHAKE = 'these three words: "Better"'  # in the first question of the handshake


@pytest.mark.parametrize(
    ("quirks", "mode"),
    [
        (OPENAI, "top20"),
        (LLAMA_CPP_PYTHON, "top115-completed"),
        (VLLM, "exact:token-ids"),
        (LLAMA_SERVER, "exact:vocabulary"),
        (TEXT_ONLY, "sample20-shares"),
    ],
)
def test_another_question_is_asked_where_the_first_has_no_answer(serve, quirks, mode):
    server = serve(replace(quirks, silent_after=(HANDSHAKE,)))
    backend = to(server)
    assert mode_of(backend) == mode
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert reading.mass > 0.5


def test_whether_a_server_samples_is_seen_in_answers_with_words(serve):
    # 20 answers that end at once are equal, and show nothing
    backend = to(serve(replace(TEXT_ONLY, silent_after=("eight words",))))
    assert (backend.capabilities.mode, backend.capabilities.fixed) == ("sample", False)


def test_a_model_that_only_continues_texts_is_asked_to_continue_one(serve):
    server = serve(replace(OPENAI, silent_after=(HANDSHAKE, "Count from")))
    assert mode_of(to(server)) == "top20"
    asked = [body["messages"][0]["content"] for _, body in server.asked]
    assert "Monday, Tuesday, Wednesday, Thursday," in asked


def test_another_question_shows_that_a_server_continues_an_answer(serve):
    # The check needs an answer of two tokens, and this model ends its count before the first.
    assert (
        mode_of(to(serve(replace(VLLM, tokenize="", silent_after=("Count from",)))))
        == "top20-completed"
    )


@pytest.mark.parametrize("mode", ["auto", "top", "sample"])
@pytest.mark.parametrize("quirks", [OPENAI, TEXT_ONLY, LLAMA_CPP_PYTHON, TRANSFORMERS])
def test_a_model_that_ends_every_answer_at_once_is_refused_and_told_so(serve, quirks, mode):
    server = serve(replace(quirks, silent_after=("",)))
    with pytest.raises(BackendUnavailableError) as error:
        _ = to(server, mode=mode).fingerprint
    assert str(error.value) == (
        f"{server.url}: 'toy' gave an empty answer to each of 3 test questions; use "
        "an instruct model, or start the server with the chat template that the model was trained with"
    )


@pytest.mark.parametrize("quirks", [LLAMA_CPP_PYTHON, OPENAI])
def test_an_answer_that_ends_at_once_is_unparsed_for_that_reason(serve, quirks):
    server = serve(replace(quirks, silent_after=(JUDGING,)))
    (reading,) = to(server).read_labels([question("x")], LABELS)
    assert reading.logprobs is None
    assert reading.reason == "the model ended its answer at once, before a first word"


def test_the_handshake_is_made_once_and_kept_between_runs(serve, tmp_path):
    server = serve(VLLM)
    cache = tmp_path / "new" / "probes.json"
    first = to(server, probe_cache=str(cache)).fingerprint
    server.asked.clear()
    assert to(server, probe_cache=str(cache)).fingerprint == first
    assert server.asked == []
    _ = to(server, probe_cache=str(cache), mode="top").fingerprint
    assert server.asked != []
    assert len(json.loads(cache.read_text())) == 2


def test_a_cached_probe_of_another_kind_or_age_is_made_again():
    capabilities = Capabilities(mode="top", top=20, refused=("exact: no",))
    assert from_text(to_text(capabilities)) == capabilities
    old = json.loads(to_text(capabilities))
    old["made"] -= 100_000
    for text in (
        "",
        "[]",
        "{}",
        '{"schema": "other"}',
        json.dumps(old),
        '{"schema": "endpoint-probe/1", "mode": 3}',
    ):
        assert from_text(text) is None


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "best"},
        {"mode": ["top"]},
        {"variant": "token-ids"},
        {"top": "20"},
        {"top": 20.0},
        {"top": True},
        {"top": 0},
        {"completion": True},
        {"completion": "somehow"},
        {"several": 1},
        {"fixed": "no"},
        {"thinks": None},
        {"refused": "exact: no"},
        {"refused": [1]},
        {"refused": {"exact": "no"}},
        {"dialect": {"length_field": 1, "tempered": True, "tokens": None}},
        {"dialect": {"length_field": "model", "tempered": True, "tokens": None}},
        {"dialect": {"length_field": "max_tokens", "tempered": "yes", "tokens": None}},
        {"dialect": {"length_field": "max_tokens", "tempered": True, "tokens": "anywhere"}},
        {"dialect": {"length_field": "max_tokens", "tempered": True, "tokens": ["server"]}},
        {"dialect": ["max_tokens"]},
        {"made": "now"},
        {"made": float("nan")},
        {"more": 1},
    ],
)
def test_a_cached_probe_with_a_value_of_another_type_is_made_again(changed):
    values = json.loads(
        to_text(Capabilities(mode="top", top=20, completion="prefill", refused=("exact: no",)))
    )
    assert from_text(json.dumps(values)) is not None
    assert from_text(json.dumps({**values, **changed})) is None


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"key": 1}', '{"[]": "{}"}'])
def test_a_cache_file_that_is_none_costs_a_handshake_and_no_more(serve, tmp_path, text):
    cache = tmp_path / "probes.json"
    cache.write_text(text)
    server = serve(VLLM)
    assert mode_of(to(server, probe_cache=str(cache))) == "exact:token-ids"
    server.asked.clear()
    assert mode_of(to(server, probe_cache=str(cache))) == "exact:token-ids"
    assert server.asked == []


def test_the_fingerprint_says_model_server_and_mode(serve):
    server = serve(VLLM)
    assert (
        to(server).fingerprint == f"openai:toy@127.0.0.1:{server.port}/v1 prefix:on exact:token-ids"
    )
    assert to(server, extra='{"top_k": 1}').fingerprint.endswith(
        " exact:token-ids extra=[('top_k', 1)]"
    )
    assert all(body["top_k"] == 1 for _, body in server.asked[-5:])


def test_labels_of_digits_where_one_begins_another(serve):
    server = serve(VLLM)
    labels = tuple(map(str, range(1, 11)))
    (reading,) = to(server).read_labels([question("x")], labels)
    ids = encode(render(question("x").messages))
    ten = server.model.label(ids, "10")
    one = math.log(math.exp(server.model.label(ids, "1")) - math.exp(ten))
    assert reading.logprobs[9] == pytest.approx(ten, abs=1e-9)
    assert reading.logprobs[0] == pytest.approx(one, abs=1e-9)


@pytest.mark.parametrize(
    ("quirks", "mode"), [(VLLM, "exact"), (LLAMA_SERVER, "exact"), (VLLM, "sample"), (VLLM, "top")]
)
def test_tokens_counted_before_a_run_are_the_tokens_sent(serve, quirks, mode):
    backend = to(serve(replace(quirks, continues=False)), mode=mode, samples=5)
    counted = sum(backend.count_tokens(questions(4)))
    before = backend.counts["prompt tokens"]
    assert all(
        reading.logprobs is not None for reading in backend.read_labels(questions(4), LABELS)
    )
    assert counted == backend.counts["prompt tokens"] - before


def test_tokens_of_writing_prompts_and_of_answers(serve):
    prompts = [replace(prompt, labels=()) for prompt in questions(3)]
    assert to(serve(VLLM)).count_tokens(prompts) == [
        len(encode(render(prompt.messages))) for prompt in prompts
    ]
    assert to(serve(OPENAI)).count_tokens(prompts) is None
    assert to(serve(OPENAI)).label_tokens == 1
    assert to(serve(TEXT_ONLY), samples=5).label_tokens == 80  # 5 answers of at most 16 tokens
