import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { get, me, NO_ANSWER, signedOut } from "./api/client";
import { connection, resyncs, retryNow } from "./api/stream";
import type { Me } from "./api/types";
import { Button } from "./ui/button";
import { Mark } from "./ui/icon";

const LOOK_MS = 15_000;

/** Whoever signed in from another tab is signed in here too. */
async function look(): Promise<void> {
  if (document.hidden) return;
  const known = await get<Me>("/me").catch(() => null);
  if (!known) return;
  me.value = known;
  signedOut.value = false;
  resyncs.value++;
  retryNow();
}

/** Begins a session without leaving the page, whose address says what was looked at; the reason where it is refused. */
async function signIn(token: string): Promise<string> {
  try {
    const answer = await fetch("login", { method: "POST", body: new URLSearchParams({ token }) });
    if (!answer.ok) return "That token is unknown, used up, revoked or expired.";
  } catch {
    return NO_ANSWER;
  }
  await look();
  return "";
}

/** The session is over or never was: a token, or the link that the server prints, opens one. */
export function SignIn() {
  const token = useSignal("");
  const refusal = useSignal("");
  useEffect(() => {
    const timer = setInterval(() => void look(), LOOK_MS);
    const onFocus = (): void => void look();
    window.addEventListener("focus", onFocus);
    return () => {
      clearInterval(timer);
      window.removeEventListener("focus", onFocus);
    };
  }, []);
  const wasIn = me.value !== null || connection.value !== "connecting";
  return (
    <main class="blank" style="height:100dvh">
      <span style="color:var(--accent)">
        <Mark />
      </span>
      <h1>Sign in</h1>
      {wasIn && <p>The session has ended: its token was revoked or has expired, or it was not used for twelve hours. After signing in you are where you were.</p>}
      <p>
        Open the link that <code>rlctl serve</code> printed when it started, or paste its token here.
      </p>
      <form
        class="toolbar"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn(token.value.trim()).then((wrong) => (refusal.value = wrong));
        }}
      >
        <input class="field" type="password" required autocomplete="off" aria-label="Token" placeholder="Token" value={token.value} onInput={(event) => (token.value = event.currentTarget.value)} />
        <Button kind="primary" type="submit" disabled={!token.value}>
          Sign in
        </Button>
      </form>
      {refusal.value && (
        <p class="wrong" role="alert">
          {refusal.value}
        </p>
      )}
    </main>
  );
}
