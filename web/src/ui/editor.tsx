/** YAML as text: line numbers, colours, and marks at the lines that have a problem. A plain text area underneath. */
import type { JSX, TargetedKeyboardEvent } from "preact";
import { useEffect, useRef } from "preact/hooks";
import "../styles/editor.css";

export interface LineProblem {
  line: number;
  message: string;
}

interface EditorProps {
  label: string;
  text: string;
  problems: readonly LineProblem[];
  readOnly?: boolean;
  /** The line to show, such as that of a problem somebody clicked. */
  reveal?: number | null;
  onChange?: (text: string) => void;
}

const LINE_HEIGHT = 19;
const PADDING = 10;

export function YamlEditor({ label, text, problems, readOnly, reveal, onChange }: EditorProps): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = text.split("\n");
  const wrong = new Map<number, string>();
  for (const { line, message } of problems) wrong.set(line, [wrong.get(line), message].filter(Boolean).join("\n"));
  useEffect(() => {
    const frame = area.current?.closest(".editor");
    if (reveal && frame) frame.scrollTop = Math.max(0, (reveal - 4) * LINE_HEIGHT);
  }, [reveal]);
  return (
    <div class="editor mono" onClick={(event) => event.target === event.currentTarget && area.current?.focus()}>
      <ol class="gutter" aria-hidden="true">
        {lines.map((_, index) => (
          <li key={index} class={wrong.has(index + 1) ? "wrong" : ""} title={wrong.get(index + 1)}>
            {index + 1}
          </li>
        ))}
      </ol>
      <div class="sheet" style={{ minHeight: `${lines.length * LINE_HEIGHT + 2 * PADDING}px` }}>
        <pre aria-hidden="true">
          {lines.map((line, index) => (
            <div key={index} class={wrong.has(index + 1) ? "wrong" : ""}>
              {coloured(line)}
              {"\n"}
            </div>
          ))}
        </pre>
        <textarea
          ref={area}
          aria-label={label}
          value={text}
          readOnly={readOnly}
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          wrap="off"
          onInput={(event) => onChange?.(event.currentTarget.value)}
          onKeyDown={keepIndent}
        />
      </div>
    </div>
  );
}

/** A new line begins where the one before did, one step deeper after `key:`. */
function keepIndent(event: TargetedKeyboardEvent<HTMLTextAreaElement>): void {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.isComposing) return;
  const area = event.currentTarget;
  const before = area.value.slice(0, area.selectionStart);
  const line = before.slice(before.lastIndexOf("\n") + 1);
  const indent = (/^ */.exec(line)?.[0] ?? "") + (/:\s*$/.test(line) ? "  " : "");
  if (indent === "") return;
  event.preventDefault();
  area.setRangeText(`\n${indent}`, area.selectionStart, area.selectionEnd, "end");
  area.dispatchEvent(new Event("input", { bubbles: true }));
}

const TOKENS = /(?<comment>(?:^|\s)#.*$)|(?<key>[\w./+-]+|"[^"]*")(?=\s*:(?:\s|$))|(?<text>"[^"]*"|'[^']*')|(?<constant>\b(?:true|false|null)\b)|(?<number>(?<![\w.])[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.-]))/g;

function coloured(line: string): (JSX.Element | string)[] {
  const parts: (JSX.Element | string)[] = [];
  let done = 0;
  for (const match of line.matchAll(TOKENS)) {
    const kind = Object.entries(match.groups ?? {}).find(([, value]) => value !== undefined)?.[0];
    if (match.index > done) parts.push(line.slice(done, match.index));
    parts.push(
      <span key={match.index} class={`yaml-${kind}`}>
        {match[0]}
      </span>,
    );
    done = match.index + match[0].length;
  }
  parts.push(line.slice(done));
  return parts;
}
