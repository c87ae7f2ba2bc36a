/** Requests to `/api/v1`. Whatever goes wrong is an `ApiError` whose message can be shown as it is. */
import { signal } from "@preact/signals";
import type { FieldProblem, Me, Operation, Problem } from "./types";

export const API = "api/v1";

/** Who is signed in; null before the server has said so. */
export const me = signal<Me | null>(null);
/** The session ended or never began: the shell shows the sign-in page instead of a view. */
export const signedOut = signal(false);

export const mayAct = (): boolean => me.value?.role === "act";

export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
    readonly problems: FieldProblem[] = [],
  ) {
    super(message);
  }
}

export const NO_ANSWER = "The server does not answer. Is `rlctl serve` still running?";

async function problemOf(response: Response): Promise<ApiError> {
  const body: Partial<Problem> = await response.json().catch(() => ({}));
  const message = body.detail || body.title || `The server answered ${response.status} ${response.statusText}.`;
  return new ApiError(message, response.status, body.problems ?? []);
}

export async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
  const init: RequestInit = { method, headers, credentials: "same-origin" };
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    headers["Content-Type"] = "application/json";
  }
  // A request that is sent again after a lost answer must not start a second run.
  if (method === "POST") headers["Idempotency-Key"] ??= crypto.randomUUID?.() ?? String(Math.random());
  let response: Response;
  try {
    response = await fetch(path.startsWith("/") ? API + path : path, init);
  } catch {
    throw new ApiError(NO_ANSWER, 0);
  }
  if (response.status === 401) signedOut.value = true;
  if (!response.ok) throw await problemOf(response);
  return response;
}

export async function get<T>(path: string): Promise<T> {
  return (await send("GET", path)).json() as Promise<T>;
}

/** POST, PATCH and DELETE; `etag` is sent as If-Match, so that a change by somebody else is not overwritten. */
export async function act<T = unknown>(method: "POST" | "PATCH" | "DELETE", path: string, body?: unknown, etag?: string): Promise<T> {
  const response = await send(method, path, body, etag ? { "If-Match": etag } : {});
  return (response.status === 204 ? undefined : await response.json()) as T;
}

/** Waits for work that the server does in the background, such as an export. */
export async function settled<T>(operation: Operation<T>): Promise<Operation<T>> {
  let current = operation;
  while (current.state === "running") {
    await new Promise((resolve) => setTimeout(resolve, 400));
    current = await get<Operation<T>>(`/operations/${current.id}`);
  }
  if (current.state === "failed") {
    const error = current.error;
    throw new ApiError(error?.detail ?? error?.title ?? "It failed, and the server gave no reason.", error?.status ?? 500, error?.problems ?? []);
  }
  return current;
}

/** The same, for who wants its result alone. */
export const finished = async <T>(operation: Operation<T>): Promise<T> => (await settled(operation)).result as T;

export function query(values: Record<string, string | number | boolean | null | undefined>): string {
  const pairs = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const text = new URLSearchParams(pairs.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}

export const explain = (error: unknown): string => (error instanceof Error ? error.message : String(error));
