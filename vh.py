p='views/history.py'; t=open(p).read()
i=t.index('# Wide content scrolls'); j=t.index('def started')
t=t[:i]+t[j:]
t=t.replace('''def chart_html(url: str, alt: str, note: str) -> str:
    """Return HTML with a chart (its data URL) on a white background, and a note (plain text) below it.
    `alt` says what the chart shows, for people who cannot see it."""
    picture = f'<img src="{url}" alt="{escape(alt)}">'
    return block("", STYLE + _wide(picture, say("Figure"), "chart") + f"<small>{escape(note)}</small>")
''','''def chart_html(url: str, alt: str) -> str:
    """Return HTML with a chart (its data URL). `alt` says what it shows, for people who cannot see it."""
    return block("", _wide(f'<img src="{url}" alt="{escape(alt)}">', say("Figure"), "chart"))
''')
t=t.replace('return block("", STYLE + _wide(table_html','return block("", _wide(table_html')
t=t.replace('''f'{STYLE}<div class="sides">''','''f'<div class="sides">''')
t=t.replace('return block("good", STYLE + lines[0], *lines[1:])','return block("good", *lines)')
t=t.replace('''def report_html(path: Path) -> str:
    """Return HTML that says where the report was saved, with a link that downloads it."""
    lines =''','''def save_report(logs_dir: Path, log: Path, baseline: Path | None = None) -> str:
    """Write the report of a log into `logs_dir/reports`. Return HTML that says so, with a link that downloads it."""
    folder = logs_dir / "reports"
    folder.mkdir(exist_ok=True)
    path = write_report(folder / f"{log.name.split('.json')[0]}.html", log, baseline=baseline)
    lines =''')
t=t.replace('''from ...records import EvaluationResult, is_embedded
''','''from ...records import EvaluationResult, is_embedded
from ...report.page import write_report
''')
open(p,'w').write(t)
