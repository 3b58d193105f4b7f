"""A tiny causal model that says Better, Worse or Similar, trained in seconds on the spot; needs torch."""

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from toy_model import ToyModel

from refladder.backends.openai.client import QUESTIONS

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LABELS = ("Better", "Worse", "Similar")
STEPS = 120
CHATS = (  # the questions of the handshake, and an answer of one kind as often as of another
    (QUESTIONS[0][0]["content"], "Better"),
    *zip(
        [question[0]["content"] for question in QUESTIONS[1:]],
        ("one two three", "Text"),
        strict=True,
    ),
    *[
        ("Write eight words that have nothing to do with each other.", word)
        for word in ("text", "number", "user")
    ],
    *[("Text: both\nBetter, Worse or Similar?", label) for label in ("Better", "Worse")],
)


def _tokenizer():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = ["Better. Similar. orse worse user assistant", "text number"] * 3
    texts += ["Text: Better, W or Similar?"] * 3
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=SPECIAL,
        initial_alphabet=alphabet,
        min_frequency=1,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=SPECIAL[2],
        pad_token=SPECIAL[0],
        chat_template=TEMPLATE,
    )


def save(folder, questions, chats=()):
    """Train a model that answers each of these questions by its place, and save it; returns the folder.

    Args:
        folder: where it is saved.
        questions: judging prompts.
        chats: pairs of what else is said to it and what it answers; with several answers it gives each as often.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    tokenizer = _tokenizer()
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    model.generation_config.do_sample = False
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    said = [(question.messages, LABELS[place % 3]) for place, question in enumerate(questions)]
    said += [([{"role": "user", "content": text}], answer) for text, answer in chats]
    rows, starts = [], []
    for messages, answer in said:
        prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        starts.append(len(tokenizer.encode(prompt)))
        rows.append(tokenizer.encode(prompt + answer + SPECIAL[2]))
    width = max(map(len, rows))
    ids = torch.tensor([row + [tokenizer.pad_token_id] * (width - len(row)) for row in rows])
    wanted = ids.clone()
    for row, (start, length) in enumerate(zip(starts, map(len, rows), strict=True)):
        wanted[row, :start] = -100
        wanted[row, length:] = -100
    for _ in range(STEPS):
        loss = model(input_ids=ids, labels=wanted).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


class SavedModel(ToyModel):
    """The saved model in the toy model's place, so that the toy server answers with its weights."""

    def __init__(self, folder):
        super().__init__()
        self._tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self._model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32
        ).eval()
        self.end = self._tokenizer.eos_token_id

    def encode(self, text):
        return self._tokenizer.encode(text)

    def render(self, messages):
        return self._tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=False
        )

    def render_begun(self, messages):
        return self.render(messages[:-1]) + messages[-1]["content"]

    def token(self, number):
        return self._tokenizer.decode([number])

    def logprobs(self, ids):
        with torch.no_grad():
            logits = self._model(torch.tensor([list(ids)])).logits[0, -1]
        return torch.log_softmax(logits.double(), 0).numpy()
