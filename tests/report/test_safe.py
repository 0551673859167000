"""Foreign text in reports: what of it is shown."""

from jaxcheck.report.safe import last_lines

STACK = """Current thread 0x00007f0f336fdb80 (most recent call first):
  File "/usr/lib/python3.12/site-packages/numpy/_core/numeric.py", line 233 in ones
  File "/home/me/kernels.py", line 9 in hog
  File "/usr/lib/python3.12/site-packages/jaxcheck/worker/subject.py", line 37 in call
  File "/usr/lib/python3.12/site-packages/jaxcheck/worker/__main__.py", line 57 in <module>
  File "<frozen runpy>", line 198 in _run_module_as_main
"""


def test_a_stack_is_that_of_the_users_own_code() -> None:
    assert last_lines(STACK + "\nExtension modules: numpy\n", 4) == [
        '  File "/usr/lib/python3.12/site-packages/numpy/_core/numeric.py", line 233 in ones',
        '  File "/home/me/kernels.py", line 9 in hog',
        "",
        "Extension modules: numpy",
    ]


def test_blank_lines_at_the_end_are_none() -> None:
    assert last_lines("a\tb\nc\n\n \n", 5) == ["a   b", "c"]
    assert last_lines(" \n", 5) == []
