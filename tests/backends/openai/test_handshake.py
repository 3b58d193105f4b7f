"""What a handshake finds out about a server, and that labels are then read as the model's own distribution has them."""

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from asked import LABELS, question, questions, to
from toy_model import encode, render
from toy_server import LLAMA_CPP_PYTHON, LLAMA_SERVER, OPENAI, SGLANG, TEXT_ONLY, TRANSFORMERS, VLLM

from refladder.backends.openai.client import Capabilities
from refladder.backends.openai.handshake import from_text, to_text
from refladder.errors import BackendUnavailableError, LabelsUnavailableError
from refladder.records import Sampling
from refladder.testing import check_backend

EXACT = {"exact:token-ids": VLLM, "exact:score": SGLANG, "exact:vocabulary": LLAMA_SERVER}
CONTINUES = replace(VLLM, tokenize="")


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


# Other servers are in test_servers.py.
@pytest.mark.parametrize(
    ("quirks", "mode"),
    [
        (CONTINUES, "top20-completed"),
        (replace(LLAMA_CPP_PYTHON, chat_logprobs="silent"), "sample20-shares"),
        (replace(OPENAI, only_9999=True), "sample20-shares"),
        (replace(VLLM, thinks=True), "sample20-shares"),
        (replace(OPENAI, top_limit=5), "top5"),
    ],
)
def test_the_best_mode_that_holds_is_taken(serve, quirks, mode):
    assert mode_of(to(serve(quirks))) == mode


@pytest.mark.parametrize("quirks", [VLLM, SGLANG, LLAMA_SERVER, OPENAI, TEXT_ONLY, TRANSFORMERS])
def test_the_contract_of_a_backend(serve, quirks):
    check_backend(to(serve(quirks)))


def spelt(server, prompt, words):
    """The log-probability of all these words together."""
    ids = encode(render(prompt.messages))
    return math.log(math.fsum(math.exp(server.model.label(ids, word)) for word in words))


@pytest.mark.parametrize(
    ("quirks", "completion"),
    [(replace(CONTINUES, top_limit=None), "prefill"), (LLAMA_CPP_PYTHON, "grammar")],
)
def test_top_is_exact_where_a_begun_label_can_be_completed(serve, quirks, completion):
    server = serve(quirks)
    backend = to(server)
    assert backend.capabilities.completion == completion
    asked = questions(4)
    for prompt, reading in zip(asked, backend.read_labels(asked, LABELS), strict=True):
        # other spellings are under 0.1 % and left out
        better = spelt(server, prompt, ("Better", "better", " Better", "BETTER"))
        worse = spelt(server, prompt, ("Worse", "worse"))  # W, orse
        assert reading.logprobs[:2] == pytest.approx([better, worse], abs=1e-2)
        assert (reading.exactness, reading.note) == ("exact", None)


@pytest.mark.parametrize(
    ("quirks", "mode"),
    [
        (replace(LLAMA_CPP_PYTHON, form="ignored"), "top115"),
        (replace(LLAMA_CPP_PYTHON, form="biased"), "top115"),
        (OPENAI, "top20"),
    ],
)
def test_top_without_a_completion_tells_that_a_beginning_is_an_upper_bound(serve, quirks, mode):
    server = serve(quirks)
    backend = to(server)
    assert mode_of(backend) == mode
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert reading.logprobs[1] >= spelt(server, question("x"), ("W",))
    assert reading.note == "label 'Worse' read from its beginning 'W', an upper bound"


def test_a_flat_distribution_is_unreadable_and_not_a_number(serve):
    (reading,) = to(serve(replace(OPENAI, flat=True)), mode="top").read_labels(questions(1), LABELS)
    assert reading.logprobs is None
    assert "label among the top 20" in reading.reason or "outside the top 20" in reading.reason


def test_sampled_shares_lie_within_their_binomial_error(serve):
    server = serve(TEXT_ONLY)
    asked = questions(4)
    spellings = (("Better", "better", " Better", "BETTER"), ("Worse",), ("Similar", " Similar"))
    readings = to(server, samples=200).read_labels(asked, LABELS)
    for prompt, reading in zip(asked, readings, strict=True):
        for value, words in zip(reading.logprobs, spellings, strict=True):
            share = math.exp(spelt(server, prompt, words))
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
    # one plain sentence
    votes = ": one answer a question, the same every time: votes, not probabilities"
    assert backend.notice.endswith(votes)
    assert backend.read_mode.not_better[0].startswith("exact: no token ids")
    server.asked.clear()
    (reading,) = backend.read_labels([question("x")], LABELS)
    assert len(server.asked) == 1
    assert "one vote, not a probability" in reading.note


def said(content, finish="stop", **more):
    return {"message": {"content": content, **more}, "finish_reason": finish}


def test_every_answer_that_says_no_label_is_counted_by_its_reason(serve):
    answers = [
        said("Better"),
        said("worse."),
        said("Mejor"),
        said(None, refusal="no"),
        said("", "content_filter"),
        said("Well, let me", "length"),
        {},
        said('{"verdict": "Better"}'),
    ]
    server = serve(replace(TEXT_ONLY, answer=lambda _messages, seed: answers[seed % 8]))
    backend = to(server, samples=8)
    (reading,) = backend.read_labels([question("x")], LABELS)
    shares = [math.exp(value) for value in reading.logprobs]
    assert shares == pytest.approx([2 / 3, 1 / 3, 0], abs=1e-20)
    assert reading.mass == pytest.approx(3 / 8)
    assert reading.exactness == "sampled"
    assert reading.note.startswith("5 of 8 answers unparsed: ")
    counts = Counter({name: n for name, n in backend.counts.items() if name.startswith("answer: ")})
    reasons = ("no label in the answer", "refusal", "content filter", "cut before a label")
    assert counts == {f"answer: {reason}": 1 for reason in (*reasons, "empty answer")}


IMPOSSIBLE = "'toy' does not support the requested mode exact .exact: no token ids of prompts"
THINKS = "the model thinks before it answers, so its first token is not a label"


@pytest.mark.parametrize(
    ("quirks", "mode", "reason"),
    [
        (OPENAI, "exact", IMPOSSIBLE),
        (TRANSFORMERS, "top", "top: log-probabilities were asked for and not returned"),
        (replace(OPENAI, chat_logprobs="refused"), "top", "logprobs are not supported with this"),
        (replace(VLLM, thinks=True), "exact", THINKS),
        (replace(VLLM, token_prompts=False), "exact", "completions of token ids: the server answ"),
    ],
)
def test_a_mode_that_is_demanded_and_impossible(serve, quirks, mode, reason):
    with pytest.raises(LabelsUnavailableError, match=reason):
        _ = to(serve(quirks), mode=mode).fingerprint


def test_a_model_whose_thoughts_are_not_shown_gets_room_for_them(serve):
    def answer(_messages, _seed):
        cut = server.asked[-1][1]["max_tokens"] < 100
        return said("", "length") if cut else said("Better")

    server = serve(replace(TEXT_ONLY, answer=answer))
    for options, room in (({}, 4096), ({"answer_tokens": "200"}, 200)):
        backend = to(server, **options)
        assert backend.capabilities.thinks
        assert not backend.capabilities.fixed  # 20 answers without a word are not 20 equal answers
        assert backend.read_labels([question("x")], LABELS)[0].logprobs is not None
        assert server.asked[-1][1]["max_tokens"] == room


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
    backend = to(serve(replace(quirks, silent_after=(HANDSHAKE,))))
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
    server = serve(replace(CONTINUES, silent_after=("Count from",)))
    assert mode_of(to(server)) == "top20-completed"


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


KEPT = Capabilities(mode="top", top=20, completion="prefill", refused=("exact: no",))
DIALECT = {"length_field": "max_tokens", "refused": [], "tokens": None}


@pytest.mark.parametrize(
    "changed",
    [
        {"mode": "best"},
        {"variant": "token-ids"},
        {"top": "20"},
        {"top": 0},
        {"completion": "somehow"},
        {"several": 1},
        {"thinks": None},
        {"refused": "exact: no"},
        {"dialect": {**DIALECT, "length_field": "model"}},
        {"dialect": {**DIALECT, "refused": "yes"}},
        {"dialect": {**DIALECT, "tokens": "anywhere"}},
        {"made": float("nan")},
        {"made": 0},  # more than a day ago
        {"schema": "other"},
        {"more": 1},
    ],
)
def test_a_cached_probe_with_another_value_is_made_again(changed):
    values = json.loads(to_text(KEPT))
    assert from_text(json.dumps(values)) == KEPT
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


def test_fields_of_the_user_are_sent_and_in_the_fingerprint(serve):
    server = serve(VLLM)
    fields = to(server, extra='{"top_k": 1}')
    assert fields.fingerprint.endswith(" exact:token-ids extra=[('top_k', 1)]")
    assert all(body["top_k"] == 1 for _, body in server.asked)


def test_labels_of_digits_where_one_begins_another(serve):
    server = serve(VLLM)
    (reading,) = to(server).read_labels([question("x")], tuple(map(str, range(1, 11))))
    ids = encode(render(question("x").messages))
    ten = server.model.label(ids, "10")
    one = math.log(math.exp(server.model.label(ids, "1")) - math.exp(ten))
    assert (reading.logprobs[0], reading.logprobs[9]) == pytest.approx((one, ten), abs=1e-9)


@pytest.mark.parametrize(
    ("quirks", "mode"), [(VLLM, "exact"), (LLAMA_SERVER, "exact"), (VLLM, "sample"), (VLLM, "top")]
)
def test_tokens_counted_before_a_run_are_the_tokens_sent(serve, quirks, mode):
    backend = to(serve(replace(quirks, continues=False)), mode=mode, samples=5)
    counted = sum(backend.count_tokens(questions(4)))
    before = backend.counts["prompt tokens"]
    readings = backend.read_labels(questions(4), LABELS)
    assert all(reading.logprobs is not None for reading in readings)
    assert counted == backend.counts["prompt tokens"] - before


def test_tokens_of_writing_prompts_and_of_answers(serve):
    prompts = [replace(prompt, labels=()) for prompt in questions(3)]
    lengths = [len(encode(render(prompt.messages))) for prompt in prompts]
    assert to(serve(VLLM)).count_tokens(prompts) == lengths
    assert to(serve(OPENAI)).count_tokens(prompts) is None
    assert to(serve(OPENAI)).label_tokens == 1
    assert to(serve(TEXT_ONLY), samples=5).label_tokens == 80  # 5 answers of at most 16 tokens


WRITTEN = Sampling(max_tokens=300, temperature=0.0)
EXTRA = '{"response_format": {"type": "text"}}'


def chats(server):
    return [body for path, body in server.asked if path == "/v1/chat/completions"]


@pytest.mark.parametrize(
    ("quirks", "extra", "left_out", "first"),
    [
        # A top-p of 1 and a seed are not sent where nothing is drawn.
        ({"refuses": ("top_p", "seed")}, None, [], 1),
        ({"refuses": ("temperature",)}, None, ["temperature"], 2),
        ({"refuses": ("temperature", "seed")}, None, ["temperature", "seed"], 3),
        ({"length_field": "max_completion_tokens"}, None, [], 2),
        ({"refuses": ("response_format",)}, EXTRA, ["response_format"], 2),
        ({}, EXTRA, [], 1),
    ],
)
def test_the_first_question_finds_out_which_fields_are_refused(
    serve, quirks, extra, left_out, first
):
    server = serve(replace(OPENAI, **quirks))
    writer = to(server, extra=extra).for_writing()
    asked = questions(3)
    writer.try_out(asked[1])
    assert len(chats(server)) == first
    drawn = "temperature" in left_out
    assert writer.answering == Sampling(max_tokens=300, temperature=float(drawn))
    texts = [each.text for each in writer.write(asked, writer.answering)]
    # No other request was refused, and what was answered first is not asked again where nothing is drawn.
    assert len(chats(server)) == first + 2 + drawn
    assert (writer.read_mode.left_out, writer.read_mode.mode) == (left_out, "written")
    assert not {*left_out} & {*chats(server)[-1]}
    if not drawn:
        good = to(serve(OPENAI)).for_writing()
        assert texts == [each.text for each in good.write(asked, writer.answering)]


@pytest.mark.parametrize("writes", [True, False])
def test_without_a_system_message_its_text_begins_the_question(serve, tmp_path, writes):
    (tmp_path / "system.txt").write_text("Be strict.")
    server = serve(replace(OPENAI, refuses=("system",)))
    backend = to(server, system=str(tmp_path / "system.txt"))
    if writes:
        backend.for_writing().write(questions(2), WRITTEN)
    else:
        backend.read_labels(questions(2), LABELS)
        assert "it takes no system message, so that text begins each question" in backend.notice
    (message,) = chats(server)[-1]["messages"]
    assert message["content"].startswith("Be strict.\n\nText: text number")


def test_what_the_server_refuses_is_said_once(serve, caplog):
    writer = to(serve(replace(OPENAI, refuses=("temperature",)))).for_writing()
    writer.try_out(questions(1)[0])
    _ = writer.fingerprint
    (message,) = caplog.messages
    told = (
        "it refuses the field temperature, which is left out, so another run may give other answers"
    )
    assert message.endswith(f"/v1: {told}")


@pytest.mark.parametrize(
    ("quirks", "thinks", "tokens"),
    [
        ({"thinks": True}, True, 4096),
        ({"thinks": True, "thoughts": "reasoning_content"}, True, 4096),
        ({"thinks": True, "switch": {"reasoning_effort": "none"}}, False, 300),
    ],
)
def test_the_first_question_finds_out_whether_the_model_thinks(serve, quirks, thinks, tokens):
    writer = to(serve(replace(OPENAI, **quirks))).for_writing()
    writer.try_out(questions(1)[0])
    assert writer.capabilities.thinks == thinks
    assert writer.answering.max_tokens == tokens
    assert ("thoughts:off(reasoning_effort)" in writer.fingerprint) == (not thinks)


@pytest.mark.parametrize(
    ("refused", "mode"),
    # The toy model draws by the seed alone.
    [(("seed",), "top20"), (("n",), "sample20-shares"), (("n", "seed"), "sample1-fixed-shares")],
)
def test_labels_are_read_without_the_fields_that_are_refused(serve, refused, mode):
    silent = "silent" if mode.startswith("sample") else "yes"
    backend = to(serve(replace(OPENAI, refuses=refused, chat_logprobs=silent)))
    assert mode_of(backend) == mode
    assert all(reading.logprobs for reading in backend.read_labels(questions(2), LABELS))


def test_a_list_that_every_row_would_refuse_is_refused_by_the_handshake(serve):
    backend = to(serve(replace(OPENAI, null_first=True)))
    assert mode_of(backend) == "sample20-shares"
    assert "top: an invalid entry among the log-probabilities" in backend.read_mode.not_better[1]
