/* What stands in the way of a launch, in the words of `rlctl launch`, each a link to its place. */
import type { JSX } from "preact";

import type { FieldProblem } from "../../api/types";
import type { Draft } from "../../experiment/draft";
import { Button } from "../../ui/button";
import { Icon } from "../../ui/icon";

const MOST_PROBLEMS = 4;

export const problemCount = (problems: number): string => (problems === 1 ? "1 problem" : `${problems} problems`);

/** What `rlctl launch` would say of it. */
export function Findings({ draft, onShow }: { draft: Draft; onShow: (problem: FieldProblem) => void }): JSX.Element {
  const problems = draft.problems.value;
  if (draft.failure.value) {
    return (
      <div class="findings tone-bad" role="alert">
        <Icon name="warning" />
        <span>{draft.failure.value}</span>
        <Button kind="quiet" onClick={() => void draft.open()}>
          Try again
        </Button>
      </div>
    );
  }
  const isWaiting = draft.checking.value || draft.checked.value === null;
  if (problems.length === 0) {
    return (
      <div class={`findings ${isWaiting ? "" : "tone-good"}`} role="status">
        {!isWaiting && <Icon name="check" />}
        <span>{isWaiting ? "Checking …" : "Ready to launch"}</span>
      </div>
    );
  }
  return (
    <div class="findings tone-bad" role="status">
      <Icon name="warning" />
      <ul>
        {problems.slice(0, MOST_PROBLEMS).map((problem) => (
          <li key={`${problem.field}${problem.message}`}>
            <button type="button" class="link" onClick={() => onShow(problem)}>
              {problem.field && <code>{problem.field}</code>}
              {problem.field ? ": " : problem.line ? `line ${problem.line}: ` : ""}
              {problem.message}
            </button>
          </li>
        ))}
        {problems.length > MOST_PROBLEMS && <li>and {problems.length - MOST_PROBLEMS} more</li>}
      </ul>
    </div>
  );
}
