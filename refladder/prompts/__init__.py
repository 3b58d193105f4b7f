"""Prompt templates: one file for a task and a role."""

from refladder.prompts.template import ROLE_OUTCOMES as ROLE_OUTCOMES
from refladder.prompts.template import ROLES as ROLES
from refladder.prompts.template import TASKS as TASKS
from refladder.prompts.template import TEMPLATES as TEMPLATES
from refladder.prompts.template import Template as Template
from refladder.prompts.template import check_folder as check_folder
from refladder.prompts.template import check_template as check_template
from refladder.prompts.template import criterion as criterion
from refladder.prompts.template import fill as fill
from refladder.prompts.template import list_templates as list_templates
from refladder.prompts.template import load_template as load_template
from refladder.prompts.template import text_of as text_of
from refladder.prompts.template import with_text as with_text
