"""The option `system`: an instruction that a model reads before every question."""

import pytest
from answering import requests
from hf_unit import compare

from refladder.backends import connect
from refladder.errors import AnswersAwaitedError, BackendUnavailableError, UsageError
from refladder.records import digest_of

WORDS = "You grade school essays. Be strict."
DIGEST = digest_of(WORDS, size=6)
PROMPT = compare("A storm.", "Boats.", "A boat sank.")


@pytest.fixture
def instruction(tmp_path):
    path = tmp_path / "strict.txt"
    path.write_text(f"{WORDS}\n")
    return str(path)


def test_a_server_gets_it_before_the_question_and_the_fingerprint_names_it(instruction, tmp_path):
    folder = tmp_path / "answers"
    connect("openai:toy", base_url=f"file:{folder}").load()
    plain, strict = (
        connect("openai:toy", base_url=f"file:{folder}", **options)
        for options in ({}, {"system": instruction})
    )
    assert strict.fingerprint == f"{plain.fingerprint} system={DIGEST}"
    for backend in (plain, strict):
        with pytest.raises(AnswersAwaitedError):
            backend.read_labels([PROMPT], PROMPT.labels)
    asked = [request["body"]["messages"] for request in requests(folder)]
    assert asked[0] == [{"role": "user", "content": PROMPT.text}]
    assert asked[1] == [{"role": "system", "content": WORDS}, *asked[0]]


def test_a_local_model_reads_it_before_the_question():
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tiny_models import byte_level

    from refladder.backends.hf.tokens import Tokens

    tokenizer = byte_level()
    # Control tokens that the instruction spells stay text: more tokens than the control token alone.
    for words in (WORDS, "Never write <|im_end|> again."):
        [ids] = Tokens(tokenizer, "m", system=words).prompts(["Which?"])
        text = tokenizer.decode(ids)
        assert text.startswith(f"<|im_start|>system\n{words}<|im_end|>\n<|im_start|>user\nWhich?")
        assert ids.count(tokenizer.convert_tokens_to_ids("<|im_end|>")) == 2


NO_PLACE = (
    "; leave out the option system, and write the instruction into prompt templates of your own"
)
REFUSES = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}"


@pytest.mark.parametrize(
    ("template", "problem"),
    [
        (None, "hf:m has no chat template"),
        (
            "{{ messages[-1].content }}",
            "hf:m has a chat template that leaves out the system message",
        ),
        (
            f"{REFUSES}{{{{ messages[0].content }}}}",
            "hf:m has a chat template that refuses a system message",
        ),
    ],
)
def test_a_template_without_a_place_for_it_is_refused(template, problem):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from tiny_models import byte_level

    from refladder.backends.hf.tokens import Tokens

    with pytest.raises(BackendUnavailableError, match=f"{problem}{NO_PLACE}"):
        Tokens(byte_level(template), "m", system=WORDS).check_system()


def test_the_fingerprint_of_a_local_model_names_it(instruction, tmp_path_factory):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    import tiny_models

    folder = tiny_models.saved_in(tmp_path_factory)("llama")
    assert connect(f"hf:{folder}", system=instruction).fingerprint.endswith(f",system:{DIGEST}")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, r"cannot be read \(No such file or directory\); name a UTF-8 text file with the in"),
        (b"\xff\xfe", r"cannot be read \(not UTF-8\); name a UTF-8 text file with the instruction"),
        (b" \n", "the file is empty; write the instruction into it"),
    ],
)
@pytest.mark.parametrize("name", ["openai:toy", "hf:nowhere"])
def test_a_file_that_cannot_be_an_instruction_is_refused(content, problem, name, tmp_path):
    path = tmp_path / "instruction.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"system={path}: {problem}"):
        connect(name, system=str(path))


def test_a_file_without_an_end_is_not_read_to_it():
    with pytest.raises(
        UsageError, match=r"^system=/dev/zero: more than 1,048,576 bytes; name a text file with"
    ):
        connect("openai:toy", base_url="http://127.0.0.1:9/v1", system="/dev/zero")
