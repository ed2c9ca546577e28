// The order of labels: as in their kind, or by the probabilities of the model if the person chooses that.
//
// The order changes only on request, so that a label keeps its position and its key.

const STORE = "finegraph.likeliest";

/** Whether the person wants the likeliest labels first; kept in the browser. */
export const likeliestFirst = () => localStorage.getItem(STORE) === "yes";

export const setLikeliestFirst = (wanted) => localStorage.setItem(STORE, wanted ? "yes" : "no");

/** The labels of a kind in the order in which they are shown and have keys; `belief` has their probabilities. */
export function inOrder(kind, belief) {
  if (!belief || !likeliestFirst()) return kind.labels;
  return kind.labels.toSorted((one, other) => (belief[other] ?? 0) - (belief[one] ?? 0));
}
