"""The options of all commands, each declared here, once.

To add an option, add an `Option` to `OPTIONS`, name it in the `@subcommand(...)` of a command, and give the command a
parameter of that name. Its place in the help, the check that no output overwrites an input, the keys of a configuration
file and the reference page follow from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from refladder.files.tables import FORMATS
from refladder.statistics import CONVENTIONS, LEVELS, SCHEMES, STATISTICS
from refladder.thoughts import ANSWER, TEXTS_OF

if TYPE_CHECKING:
    from collections.abc import Callable

# Sizes of the intervals beside figures in LaTeX tables.
INTERVAL_SIZES = ("none", "small", "full")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a command. One with a `flag` without dashes, such as `SOURCE`, is an argument."""

    help: str = ""
    # Default: `--` and the key in `OPTIONS`.
    flag: str = ""
    # Parameter of the command's function. Default: the key in `OPTIONS`.
    name: str = ""
    # Parameter of the Python call, and field of the settings, if it differs from `name`.
    parameter: str = ""
    # Second spelling of the flag.
    alias: str = ""
    # bool is a flag without a value, a tuple lists the possible values.
    type: Callable[[str], Any] | tuple[str, ...] = str
    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    default: object = None
    required: bool = False
    multiple: bool = False
    # The values are KEY=VALUE, and the command gets a dict. It can then be repeated.
    pairs: Literal["", "text", "number"] = ""
    metavar: str | None = None
    # Its value where it is given without one; None if it needs one.
    bare: str | None = None
    envvar: str | None = None
    # What shell completion offers: a kind of `refladder list`.
    complete: str = ""
    # Heading in the help. A rare option is shown by --help-all only.
    heading: str = ""
    rare: bool = False
    # The role of a path. `backend` is KIND:PATH; a `table` or a `file` may be a folder.
    reads: Literal["", "table", "file", "backend"] = ""
    writes: Literal["", "file", "folder"] = ""
    # Files beside this one that are read or written with it: what is added to its name.
    beside: tuple[str, ...] = ()
    # Kinds of backend that have this as an option of theirs. The command itself does not get it.
    backends: tuple[str, ...] = ()
    # Whether it determines how a judge or a writer is asked, and so cannot go with --judgments-from.
    asks: bool = False
    # Where `score` accepts it: with a student as the judge, with --text, with a folder of scored files.
    with_student: bool = False
    with_text: bool = True
    with_many_files: bool = True
    # Whether it describes a new ladder set, so that `build --add` takes it from the existing set.
    of_new_set: bool = False

    @property
    def is_argument(self) -> bool:
        """Return whether it is given by its position, without a flag."""
        return not self.flag.startswith("-")

    @property
    def is_text(self) -> bool:
        """Return whether its value is a text, a path or one of some words."""
        return self.type in {str, Path} or isinstance(self.type, tuple)

    @property
    def names(self) -> tuple[str, str]:
        """Return its parameter in the Python call, and in the function of the command."""
        return self.parameter, self.name


# What a user gave, by the name that messages use, with its option; a call also has arguments that are not options.
NamedOptions = Iterable[tuple[str, Option | None]]


def whole_number_or_word(text: str) -> int | str:
    """Return a whole number, or any other text unchanged."""
    return int(text) if str(text).isdecimal() else text


def listed(text: str) -> list[str]:
    """Return the names in a text with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


def like(key: str, **changes: Any) -> Option:
    """Return an option of the table with changes, such as another help text or default."""
    return replace(OPTIONS[key], **changes)


def under(heading: str, **options: Option) -> dict[str, Option]:
    """Return options with their heading, and with what their keys imply."""
    for key, option in options.items():
        name = option.name or key
        options[key] = replace(
            option,
            heading=heading,
            flag=option.flag or f"--{key.replace('_', '-')}",
            name=name,
            parameter=option.parameter or name,
            multiple=option.multiple or bool(option.pairs),
        )
    return options


OPTIONS: dict[str, Option] = {
    # Arguments have no heading.
    **under(
        "",
        ladder_set=Option(flag="SET", complete="ladders", reads="file"),
        benchmark=Option(
            flag="BENCHMARK",
            parameter="data",
            complete="benchmarks",
            reads="table",
            of_new_set=True,
        ),
        source=Option(flag="SOURCE", parameter="table", reads="table", with_student=True),
        set_argument=Option(
            flag="SET", name="ladders", required=True, complete="ladders", reads="file"
        ),
        table=Option(flag="TABLE", required=True, reads="table"),
        kind=Option(flag="[KIND]"),
        repository=Option(flag="ORG/NAME", required=True),
        judgments_argument=Option(flag="JUDGMENTS", name="judgments", required=True, reads="table"),
        run=Option(flag="RUN", type=Path, reads="file", beside=(".run.json", ".judgments.jsonl")),
        context_argument=Option(flag="CONTEXT_ID", name="context_id"),
    ),
    **under(
        "Options",
        judge=Option(
            "Judge model (see `refladder list backends`).",
            default="builtin",
            metavar="BACKEND",
            complete="backends",
            reads="backend",
            asks=True,
            with_student=True,
            of_new_set=True,
        ),
        ladders=Option(
            "Ladder set: a name of `refladder list ladders`, a folder, or hub:ORG/NAME@REVISION.",
            metavar="SET",
            complete="ladders",
            reads="file",
            with_student=True,
        ),
        contexts=Option(
            "Number of contexts to audit, drawn at random with --seed. Default: all.",
            type=int,
            at_least=1,
        ),
        dimension=Option(
            "Dimension to use. Repeatable. Default: all.",
            parameter="dimensions",
            multiple=True,
            metavar="NAME",
            of_new_set=True,
        ),
        add=Option(
            "Instead of BENCHMARK: add ladders for the new contexts of TABLE to the set in --out. "
            "Its ladders stay.",
            metavar="TABLE",
            reads="table",
        ),
        out=Option(
            "Output file for the rows that pass; - is standard output.",
            default="-",
            writes="file",
            with_student=True,
            with_text=False,
        ),
        out_file=Option(flag="--out", help="Output file.", name="out", type=Path, writes="file"),
        out_folder=Option(
            flag="--out", help="Output folder.", name="out", type=Path, writes="folder"
        ),
        writer=Option(
            "Writer model (see `refladder list backends`). Default for a benchmark: builtin.",
            metavar="BACKEND",
            complete="backends",
            reads="backend",
            asks=True,
        ),
        certify=Option(
            "Judge the rungs against each other. Rungs out of order are generated again, at most "
            "twice. After that, their level is dropped, or their ladder fails.",
            type=bool,
            of_new_set=True,
        ),
        shared=Option(
            "Build one scale for all rows of your own table: every text is compared with the "
            "ladders of the same K contexts (anchors), drawn with --seed.",
            type=int,
            at_least=1,
            metavar="K",
            of_new_set=True,
        ),
        good=Option("Condition of a good label: '>=4' or '=yes'.", metavar="CONDITION"),
        by=Option(
            "Column with the scores. Default: overall_score, or the only column NAME_score; of ratings with grades, "
            "overall_grade or NAME_grade.",
            metavar="COLUMN",
        ),
        precision=Option("Promised share of good rows among those kept.", type=float),
        recall=Option("Promised share of the good rows that are kept.", type=float),
        sure=Option("Probability of the promise, 0 to 1.", type=float, default=0.9),
        strict=Option(
            "Promise a precision also for rare contexts that mislead the judge as a whole. Needs many contexts.",
            type=bool,
        ),
        plan=Option(
            "Show what more labels can promise, and write the next rows to label to --out.",
            type=bool,
        ),
        rate=Option(
            "Estimate the share of good rows among those that this file keeps, from labels not "
            "used to choose it.",
            type=Path,
            metavar="THRESHOLD",
            reads="file",
        ),
        systems=Option(
            "Systems to compare, in this order. Default: all.", metavar="A,B", type=listed
        ),
        fail_if_worse=Option(
            "The candidate. Exit with code 3 if this system is significantly worse than any other, also if rows without a "
            "score count as the low end of the scale, or lacks more scores, or if too few contexts have a score.",
            metavar="SYSTEM",
            bare="",
        ),
        mix=Option(
            "Allow scores with different signatures, which can be on different scales.", type=bool
        ),
        across_judges=Option(
            "Allow grades of ratings by several judges, if ladders, scoring anchors and criterion are the same.",
            type=bool,
        ),
        prompt_file=Option(
            flag="--prompt",
            help="File with the task prompt. {column} is replaced by the cell of each row.",
            parameter="prompt",
            type=Path,
            reads="file",
        ),
        prompt_text=Option("The task prompt itself, instead of a file."),
        models=Option(
            flag="--model",
            help="Model to compare, with its name in the results, such as small=hf:ORG/MODEL. "
            "Repeatable; two or more.",
            pairs="text",
            metavar="NAME=BACKEND",
            reads="backend",
        ),
        criteria=Option(
            flag="--criterion",
            help="Criterion and its description in plain words. Repeatable; one or more.",
            pairs="text",
            metavar="NAME=WORDS",
        ),
        worst=Option(
            "What the worst text on a criterion is like. A number and a colon before it set the "
            "low end of the scale, such as '-2: incoherent'. Repeatable.",
            pairs="text",
            metavar="NAME=WORDS",
        ),
        best_words=Option(
            flag="--best",
            help="What the best text on a criterion is like, with the high end of the scale before a "
            "colon. Repeatable.",
            name="best",
            pairs="text",
            metavar="NAME=WORDS",
        ),
        explain=Option(
            "Ask the judge for a one-sentence explanation of every comparison with a winner.",
            type=bool,
        ),
        methods=Option(
            "Methods to run and to show in a report card (see `refladder list methods`). Default: "
            "ladder; none with --scores unless --judge, --writer or --ladders is given.",
            metavar="NAME,...",
            complete="methods",
        ),
        scores=Option(
            "Scored rows of `refladder score` to place on the ladder.",
            metavar="FILE",
            reads="table",
        ),
        work=Option(
            "Folder for ladders, judgments and results, for resuming and for `review`. Several "
            "benchmarks get a subfolder each.",
            type=Path,
            writes="folder",
        ),
        min=Option(
            "Minimum value of a column. Repeatable; a row must meet all thresholds.",
            pairs="number",
            metavar="COLUMN=NUMBER",
        ),
        max=Option(
            "Maximum value of a column. Repeatable.", pairs="number", metavar="COLUMN=NUMBER"
        ),
        top=Option(
            "Fraction (0 to 1) to keep of the rows that meet every threshold, best first. Requires "
            "--by.",
            type=float,
        ),
        best=Option(
            "Number of rows to keep per group, of those that meet every threshold, best first. "
            "Requires --per.",
            type=int,
            at_least=1,
            metavar="K",
        ),
        per=Option(
            "Column whose values are the groups of --best, such as context_id.", metavar="COLUMN"
        ),
        threshold=Option(
            "Threshold file of `refladder calibrate`. Cannot be combined with other conditions.",
            type=Path,
            reads="file",
        ),
        rejected=Option(
            "Output file for the rows that do not pass. Default: they are counted and dropped.",
            writes="file",
        ),
        unscored=Option(
            "Treatment of rows without a number in a filtered column: keep, drop, or an output "
            "file.",
            default="drop",
            writes="file",
        ),
        first=Option(
            flag="--from",
            help="Scored table whose scores are to be mapped.",
            parameter="table",
            required=True,
            reads="table",
        ),
        second=Option(
            flag="--to",
            help="Table of the same texts with scores on the target scale.",
            parameter="to",
            required=True,
            reads="table",
        ),
        from_by=Option(
            "Column of --from with scores of any kind. Default: every NAME_score and NAME_grade that both tables have. "
            "Texts are matched by id, else by context and text.",
            parameter="by",
            metavar="COLUMN",
        ),
        to_by=Option("Column of --to with scores of the same texts.", metavar="COLUMN"),
        at=Option(
            "Cut-off on the target scale at which changed decisions are counted. Default: at most nine between the "
            "target's scores, at its deciles.",
            type=float,
            metavar="CUT",
        ),
        median=Option("Take the median of the grades instead of the mean.", type=bool),
        least=Option(
            "Fewest judges whose grades make one. Default: half of them, rounded up.",
            type=int,
            at_least=1,
            metavar="N",
        ),
        same_judge=Option("Allow tables of one judge.", type=bool),
        readings_file=Option(
            flag="--baseline",
            help="File of readings by the judge.",
            name="baseline",
            type=Path,
            required=True,
            writes="file",
            beside=(".judgments.jsonl", ".again.judgments.jsonl"),
        ),
        new=Option("Ask twice, and write a new file for --baseline.", type=bool),
        update=Option("Add this reading to the file of --baseline.", type=bool),
        texts=Option(
            "Table of frozen texts that are rated and placed too: an order that moved shows among like texts first.",
            metavar="TABLE",
            reads="table",
        ),
        at_most=Option(
            "Excess of changed decisions over the judge's own noise that is allowed.",
            type=float,
            at_least=0,
            at_most=1,
            default=0.03,
            metavar="SHARE",
        ),
        margin=Option(
            "Minimum difference of the two scores, in units of the score column. Equal scores are "
            "never a pair.",
            type=float,
            required=True,
        ),
        per_context=Option(
            "Maximum number of pairs per context; the largest differences are kept. Default: all.",
            type=int,
            at_least=1,
            metavar="K",
        ),
        conversational=Option(
            "Write prompt, chosen and rejected as chat messages, to which TRL applies the model's "
            "chat template.",
            type=bool,
        ),
        private=Option("Create the repository as private.", type=bool),
        tag=Option("Tag for the commit, such as v1.", metavar="NAME"),
        message=Option("Message of the commit."),
        without_contexts=Option(
            "Leave out the context texts, and publish their digests only.", type=bool
        ),
        licence=Option("Licence of the texts, such as cc-by-4.0.", alias="--license", metavar="ID"),
        baseline=Option("Publish ladders of the built-in writer, as a baseline.", type=bool),
        endpoint=Option(
            "Address of the Hub. Default: the variable HF_ENDPOINT, else the Hub.", metavar="URL"
        ),
        folders=Option(
            flag="--folder",
            help="Folder whose tables and runs the page may read, and where it writes new runs. "
            "Repeatable. Default: the current folder.",
            type=Path,
            multiple=True,
            reads="file",
        ),
        port=Option(
            "Port number of the server. 0 = any free port.",
            type=int,
            at_least=0,
            at_most=65535,
            default=0,
        ),
        host=Option(
            "Address of the server. With an address other than 127.0.0.1, other machines can "
            "connect: everyone with the printed address and its token can read the runs and start "
            "models.",
            default="127.0.0.1",
        ),
        no_browser=Option("Print the address, and do not open a browser.", type=bool),
        config_file=Option(
            flag="--config",
            help="TOML file with options: one table per command, such as [score], with keys named like "
            "the long options.",
            type=Path,
            reads="file",
        ),
    ),
    **under(
        "Data",
        benchmark_source=Option(
            flag="--source",
            help="File or folder with the data of BENCHMARK. Default: download from the public source.",
            name="source",
            reads="table",
            of_new_set=True,
        ),
        task_file=Option(
            "TOML file with the task and its dimensions, for your own table.",
            type=Path,
            reads="file",
            of_new_set=True,
        ),
        column=Option(
            "Column of context_id, context, background, output, output_id or system, if named "
            "otherwise. Repeatable.",
            parameter="columns",
            pairs="text",
            metavar="FIELD=NAME",
            with_student=True,
            with_text=False,
        ),
        own_column=Option(
            flag="--column",
            help="Column for a field of your own table, such as output=reply. Repeatable.",
            name="column",
            parameter="columns",
            pairs="text",
            metavar="FIELD=NAME",
        ),
        option=Option(
            "Option of the benchmark, such as human=true. Repeatable.",
            parameter="options",
            pairs="text",
            metavar="KEY=VALUE",
            of_new_set=True,
        ),
        labels=Option(
            "Table of labels with the ids of rows. Repeatable. Default: the labels are in SCORED.",
            multiple=True,
            metavar="TABLE",
            reads="table",
        ),
        label=Option("Column of the labels.", metavar="COLUMN"),
        unit=Option(
            "What was sampled for labelling: rows, or contexts with some or all of their rows. "
            "Default: context, if rows have one.",
            type=("row", "context"),
        ),
        given=Option(
            flag="--format",
            help="Format of the input. Default: by file extension; jsonl for -.",
            type=FORMATS,
            rare=True,
            with_student=True,
            with_text=False,
        ),
        escape_formulas=Option(
            "Put ' before CSV text that starts with =, +, - or @, so that a spreadsheet does not "
            "run it.",
            type=bool,
            rare=True,
            with_student=True,
            with_text=False,
        ),
        form=Option(
            flag="--format",
            help="Format of the printed tables.",
            type=("text", "markdown", "latex", "json", "csv"),
            default="text",
        ),
        id_column=Option(
            flag="--id",
            help="Column with the row ids. Default: id, else the row number.",
            parameter="id",
            metavar="COLUMN",
        ),
        table_format=Option("Format of TABLE. Default: by file extension.", type=FORMATS),
        score_column=Option(
            "Column of --scores with the scores of a dimension. Repeatable. Default: "
            "DIMENSION_score, else DIMENSION, else score.",
            parameter="score_columns",
            pairs="text",
            metavar="DIMENSION=COLUMN",
            rare=True,
        ),
        out_format=Option(
            "Format of the output. Default: by file extension; for -, csv if the input is CSV, "
            "else jsonl.",
            type=FORMATS,
            rare=True,
            with_student=True,
            with_text=False,
            with_many_files=False,
        ),
        text=Option(
            "Text to score instead of a table. Repeatable. Requires --context-id.", multiple=True
        ),
        context_id=Option(
            "Context id of every row, for a table without this column.", with_student=True
        ),
    ),
    **under(
        "Judge and writer",
        judge_option=Option(
            "Option of the judge, such as dtype=bfloat16 (hf) or mode=exact (openai). Repeatable.",
            parameter="judge_options",
            pairs="text",
            metavar="KEY=VALUE",
            reads="file",
            asks=True,
            of_new_set=True,
        ),
        base_url=Option(
            "Server of openai:MODEL or reward:MODEL, including /v1, or file:FOLDER for answers "
            "through files. Default: OPENAI_BASE_URL, else the OpenAI API.",
            metavar="URL",
            backends=("openai", "reward"),
        ),
        memory=Option(
            "Memory limit of hf:MODEL on top of its weights, such as 8G. Default: 70 % of the free "
            "memory.",
            metavar="SIZE",
            rare=True,
            backends=("hf", "reward"),
        ),
        truncate_context=Option(
            "Truncate the context of prompts too long for hf:MODEL, and mark their judgments. "
            "Default: they are unparsed.",
            type=bool,
            rare=True,
            backends=("hf", "reward"),
        ),
        least_mass=Option(
            "Minimum label mass (total probability of the labels). A judgment below it is "
            "unparsed.",
            type=float,
            at_least=0,
            at_most=1,
            default=0.05,
            rare=True,
        ),
        answers=Option(
            "How the judge answers. 0: label probabilities; N: N samples. stated, stated:K: percentages "
            "for all rungs, in K orders. rating: 1 to 5 for the text alone; anchored: after graded "
            "rungs; with :stated or :together, percentages.",
            type=whole_number_or_word,
            default=0,
            metavar="N|MODE",
            asks=True,
        ),
        prompts=Option(
            "Folder of templates (TASK/ROLE.md) that replace the shipped ones.",
            type=Path,
            rare=True,
            reads="file",
            asks=True,
        ),
        writer_option=Option(
            "Option of the writer backend. Repeatable.",
            parameter="writer_options",
            pairs="text",
            metavar="KEY=VALUE",
            reads="file",
            asks=True,
        ),
        judgments_from=Option(
            "Table of judgments that another program made, or a judgments file, instead of a "
            "judge. No model is asked; comparisons missing from it are unparsed. Repeatable: "
            "several files count as one.",
            multiple=True,
            metavar="FILE",
            rare=True,
            reads="table",
            with_text=False,
            with_many_files=False,
        ),
        both_orders=Option("Judge pairs in both orders. Doubles the calls.", type=bool),
        yes_no=Option(
            "Ask three yes/no questions per comparison. Triples the calls.",
            type=bool,
            rare=True,
            asks=True,
        ),
        anchors=Option(
            "Score with the first N anchors of a shared set.",
            type=int,
            at_least=1,
            rare=True,
        ),
        text_of=Option(
            "Judge the answer behind marked thoughts, or the whole text.",
            type=TEXTS_OF,
            default=ANSWER,
            rare=True,
        ),
        any_judge=Option(
            "Score even if the judge does not distinguish the best rung from the worst.",
            type=bool,
            rare=True,
        ),
    ),
    **under(
        "Generation",
        seed=Option("Random seed.", type=int, default=0, of_new_set=True),
        rungs=Option(
            "Number of rungs per ladder.", type=int, at_least=2, default=5, of_new_set=True
        ),
        attempts=Option(
            "Maximum number of attempts to generate a rung.",
            type=int,
            at_least=1,
            default=3,
            rare=True,
        ),
        max_tokens=Option(
            "Maximum length of a generated text, in tokens.",
            type=int,
            at_least=1,
            default=512,
            rare=True,
            of_new_set=True,
        ),
        temperature=Option(
            "Sampling temperature (no unit). 0 = greedy decoding. Default: that of the writer's "
            "generation_config, else 1; answers of judges, 1.",
            type=float,
            at_least=0,
            rare=True,
            of_new_set=True,
        ),
        top_p=Option(
            "Nucleus sampling: share of probability to sample from. Default: as for --temperature.",
            type=float,
            at_least=0,
            at_most=1,
            rare=True,
            of_new_set=True,
        ),
        human=Option(
            "Table of human-written rungs with the columns context_id, dimension, level and text.",
            reads="file",
        ),
    ),
    **under(
        "Scores",
        weight=Option(
            "Weight in the overall score. Repeatable. Default: 1 for each dimension.",
            parameter="weights",
            pairs="number",
            metavar="DIMENSION=NUMBER",
            rare=True,
        ),
        comparisons=Option(
            "Number of comparisons per context and dimension for pairwise methods. Default: all "
            "pairs in both orders.",
            type=int,
            at_least=1,
            rare=True,
        ),
        selection=Option(
            "How --comparisons are selected: random ordered pairs, no pair twice, or both orders "
            "of each pair.",
            type=SCHEMES,
            default="symmetric",
            rare=True,
        ),
        method_options=Option(
            flag="--method-option",
            help="Option of one method, such as pairs-beam.beam=10. Repeatable.",
            pairs="text",
            metavar="METHOD.KEY=VALUE",
            rare=True,
        ),
        rule=Option(
            "Scoring rule (see `refladder list rules`).",
            default="ladder-sum",
            metavar="NAME",
            complete="rules",
            rare=True,
        ),
        link=Option(
            "Link file of `refladder link`: scores are compared on its target scale, and COLUMN_linked is added for "
            "each column that it maps.",
            type=Path,
            reads="file",
        ),
    ),
    **under(
        "Agreement",
        levels=Option(
            flag="--level",
            help="Level of the correlation: outputs of each context, all outputs, or system means. "
            "Repeatable. Default: within_context; all with JSON and CSV.",
            type=LEVELS,
            multiple=True,
        ),
        statistics=Option(
            flag="--statistic",
            help="Correlation coefficient. Repeatable. Default: spearman; all with JSON and CSV.",
            type=STATISTICS,
            multiple=True,
        ),
        constant=Option(
            "How to treat contexts with constant ratings or scores: skip them, or count the "
            "correlation as 0 (Liusie et al.) or 1 (PairS, ZEPO).",
            type=CONVENTIONS,
            default="skip",
            rare=True,
        ),
        resamples=Option(
            "Number of permutations per test against --reference, for more than 16 contexts; up to 16 "
            "have all permutations. Default: chosen from the number of tests.",
            type=int,
            at_least=1,
            rare=True,
        ),
        reference=Option(
            "Method to test all others against, with a paired permutation test and Holm's "
            "correction. If no other method is given, the surface baselines are tested.",
            metavar="METHOD",
        ),
        baselines=Option(
            "Surface measures to show: the best one, cross-validated over contexts, or all.",
            type=("best", "all"),
            default="best",
            rare=True,
        ),
    ),
    **under(
        "Cost",
        store=Option(
            "File that keeps every answer for reuse. Default: REFLADDER_STORE, else a file in the "
            "cache folder for openai and for runs with a budget.",
            type=Path,
            envvar="REFLADDER_STORE",
            rare=True,
            writes="file",
        ),
        without_store=Option(
            flag="--no-store", help="Do not use a response store.", type=bool, rare=True
        ),
        dry_run=Option("Print calls, tokens and price; run no model.", type=bool),
        prices=Option(
            'TOML file: per model, a table ["MODEL"] with input and output in USD per million tokens. Default: REFLADDER_PRICES.',
            type=Path,
            envvar="REFLADDER_PRICES",
            rare=True,
            reads="file",
        ),
        budget=Option(
            "Cost limit in USD. A higher estimate needs confirmation.",
            type=float,
            above=0,
            metavar="USD",
        ),
        store_file=Option(
            flag="--store",
            help="Response store. Default: the variable REFLADDER_STORE, else the store in the user's "
            "cache folder.",
            name="path",
            type=Path,
            envvar="REFLADDER_STORE",
            rare=True,
            writes="file",
        ),
    ),
    **under(
        "Many machines",
        workers=Option(
            "Number of processes that score files of a folder, a glob or a URL, each with its own "
            "judge. Default: 1; with --engine ray one per GPU, or per core but one.",
            type=int,
            at_least=1,
            metavar="N",
            rare=True,
            with_student=True,
            with_text=False,
        ),
        engine=Option(
            "Where files are scored: processes on this machine, or actors of the Ray cluster at "
            "RAY_ADDRESS (else Ray starts here). Default: processes.",
            type=("processes", "ray"),
            rare=True,
            with_student=True,
            with_text=False,
        ),
        shard=Option(
            "Score only every N-th file, starting at number I (1 to N). Run N such jobs with the "
            "same OUT.",
            metavar="I/N",
            rare=True,
            with_student=True,
            with_text=False,
        ),
    ),
    **under(
        "Run and output",
        judgments=Option(
            "Judgments file, for resuming and `rescore`. Default: OUT.judgments.jsonl.",
            type=Path,
            writes="file",
            with_text=False,
        ),
        as_json=Option(
            flag="--json", help="Print JSON instead of text.", type=bool, with_student=True
        ),
        page=Option(
            flag="--html",
            help="Output file for the review page: one HTML file, which also takes ratings.",
            type=Path,
            writes="file",
        ),
        figures=Option(
            "Output folder for figures: agreement by cost and by number of comparisons. SVG and "
            "PNG; requires matplotlib.",
            type=Path,
            writes="folder",
        ),
        intervals=Option(
            "Intervals in the LaTeX tables of agreement: none, in small print, or as large as the "
            "values.",
            type=INTERVAL_SIZES,
            default="full",
            rare=True,
        ),
        quiet=Option("Print results, warnings and errors only.", type=bool, with_student=True),
        help_all=Option("Show all options and exit.", type=bool),
        help=Option("Show this message and exit.", type=bool),
    ),
}

# In the order of the help.
HEADINGS = tuple(dict.fromkeys(each.heading for each in OPTIONS.values() if each.heading))

# Options that are given together.
OF_DATA = ("task_file", "own_column", "option", "dimension")
OF_BACKENDS = ("base_url", "memory", "truncate_context")
OF_COST = ("store", "without_store", "dry_run", "prices", "budget")
OF_GENERATION = ("seed", "max_tokens", "temperature", "top_p")
