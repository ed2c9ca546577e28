// Labels by what the model believes: shown with each label, and, where a person asks for it, their order.
//
// Without being asked the order of labels never changes, so that a label keeps its place and its key.

const STORE = "finegraph.likeliest";

/** Whether the person wants the likeliest labels first; kept in the browser. */
export const likeliestFirst = () => localStorage.getItem(STORE) === "yes";

export const setLikeliestFirst = (wanted) => localStorage.setItem(STORE, wanted ? "yes" : "no");

/** The labels of a kind in the order in which they are shown and have keys; `belief` has their probabilities. */
export function inOrder(kind, belief) {
  if (!belief || !likeliestFirst()) return kind.labels;
  return kind.labels.toSorted((one, other) => (belief[other] ?? 0) - (belief[one] ?? 0));
}
