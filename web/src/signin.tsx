import { useSignal } from "@preact/signals";
import { Button } from "./ui/button";
import { Mark } from "./ui/icon";

/** The session is over or never was: a token, or the link that the server prints, opens one. */
export function SignIn() {
  const token = useSignal("");
  return (
    <main class="blank" style="height:100dvh">
      <span style="color:var(--accent)">
        <Mark />
      </span>
      <h1>Sign in</h1>
      <p>
        Open the link that <code>rlctl serve</code> printed when it started, or paste its token here.
      </p>
      <form class="toolbar" action="login" method="get">
        <input class="field" name="token" type="password" required autocomplete="off" aria-label="Token" placeholder="Token" value={token.value} onInput={(event) => (token.value = event.currentTarget.value)} />
        <Button kind="primary" type="submit" disabled={!token.value}>
          Sign in
        </Button>
      </form>
    </main>
  );
}
