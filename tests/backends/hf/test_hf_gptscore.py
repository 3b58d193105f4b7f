"""GPTScore with a model: the mean log-probability of an answer's tokens is minus the loss of transformers itself."""

import pytest

from refladder.methods.gptscore import mean_logprobs, read_texts
from refladder.prompts import fill, load_template
from refladder.records import Context, Dimension, Output
from refladder.scoring.grades import grade_question

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CONTEXT = Context(
    id="c", task="summarization", text="A storm closed the harbour of Lerwick on Monday."
)
DIMENSION = Dimension(name="coherence", description="The text hangs together.")
TEMPLATE = load_template("summarization", "best")
TEXTS = (
    "The harbour is closed.",
    "The harbour is closed. It opens on Thursday.",
    "Boats broke loose!",
    "",
)


def loss(path, text):
    """Minus the loss of an answer to the prompt, over the answer's tokens."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(path)
    model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
    slots = {
        "context": CONTEXT.text,
        "background": "",
        "dimension": "coherence",
        "description": DIMENSION.description,
    }
    messages = [{"role": "user", "content": fill(TEMPLATE, slots).text}]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    whole = tokenizer(prompt + text, add_special_tokens=False, return_tensors="pt")["input_ids"]
    begin = len(tokenizer(prompt, add_special_tokens=False)["input_ids"])
    labels = whole.clone()
    labels[:, :begin] = -100  # not counted
    with torch.inference_mode():
        return -model(whole, labels=labels).loss.item(), whole.shape[1] - begin


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_gptscore_is_minus_the_loss_of_the_answer(name, folder, opened):
    backend = opened(name)
    outputs = [Output(id=text, context_id="c", system=text, text=text) for text in TEXTS]
    asked = [grade_question(output, CONTEXT, DIMENSION) for output in outputs]
    judgments = read_texts(backend, TEMPLATE, "recipe", asked)
    values = mean_logprobs(backend, TEMPLATE, asked, judgments)
    for text, value in zip(TEXTS[:3], values[:3], strict=True):
        expected, tokens = loss(folder(name), text)
        assert value == pytest.approx(expected, abs=1e-5)
        assert tokens > 1
    assert values[3] is None
