// Requests of the pages to their server. Errors of the server are problem documents with a title, a detail and what to do.

const UNREACHABLE = {
  type: "offline",
  title: "The server does not answer",
  detail: "It may have been stopped.",
  what_to_do: "Start it again, then try once more.",
};

/** A request that failed. `status` is 0 if the server could not be reached. */
export class Problem extends Error {
  constructor(status, body = {}, retryAfter = null) {
    super(body.detail ?? body.title ?? `the server answered ${status}`);
    this.status = status;
    this.body = body;
    this.retryAfter = retryAfter; // seconds
    this.name = (body.type ?? "").split(":").pop();
    this.title = body.title ?? `Status ${status}`;
    this.detail = body.detail ?? "";
    this.whatToDo = body.what_to_do ?? "";
  }
}

/**
 * Send a request and parse the response.
 *
 * @param {string} path
 * @param {RequestInit} options
 * @param {{read?: (response: Response) => Promise<*>, unreachable?: object}} more `read` parses the body, by default as
 *   JSON; `unreachable` is the body of the problem if no complete response came
 * @throws {Problem} the server refused the request or could not be reached
 */
export async function request(path, options = {}, { read = (response) => response.json(), unreachable = UNREACHABLE } = {}) {
  let response;
  try {
    response = await fetch(path, options);
    if (response.ok) return await read(response);
  } catch (error) {
    // Browsers throw a TypeError if the connection fails, also in the middle of the body.
    if (error instanceof TypeError || error.name === "TimeoutError") throw new Problem(0, unreachable);
    throw error;
  }
  const body = await response.json().catch(() => ({}));
  throw new Problem(response.status, body, Number(response.headers.get("Retry-After")) || null);
}
