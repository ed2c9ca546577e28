// The forms of all changes of names: their titles and fields. Changes and fields are named as in the API.
//
// A field is [name, type, label]; names_fields.js has the types.

export const FORMS = {
  add_label: { title: "Add a label", fields: [["kind", "kind", "Kind"], ["name", "text", "Name of the new label"]] },
  rename_label: {
    title: "Rename a label",
    fields: [["kind", "kind", "Kind"], ["name", "label", "Label"], ["to", "text", "New name"]],
  },
  merge_labels: {
    title: "Merge labels",
    fields: [["kind", "kind", "Kind"], ["labels", "labels", "Labels that become one"], ["into", "text", "Name of the one label"]],
  },
  split_label: {
    title: "Split a label",
    fields: [["kind", "kind", "Kind"], ["name", "label", "Label"], ["into", "classes", "Its classes go to"]],
  },
  remove_label: { title: "Remove a label", fields: [["kind", "kind", "Kind"], ["name", "label", "Label"]] },
  add_kind: {
    title: "Add a kind",
    fields: [["name", "text", "Name of the new kind"], ["type", "type", "What it holds"], ["labels", "list", "Its labels, separated by commas"], ["mode", "mode", "A class has"]],
  },
  rename_kind: { title: "Rename a kind", fields: [["name", "kind", "Kind"], ["to", "text", "New name"]] },
  merge_kinds: {
    title: "Merge kinds",
    fields: [["kinds", "kinds", "Kinds that become one"], ["into", "text", "Name of the one kind"]],
  },
  split_kind: { title: "Split a kind", fields: [["name", "kind", "Kind"], ["into", "parts", "Its labels go to"]] },
  remove_kind: { title: "Remove a kind", fields: [["name", "kind", "Kind"]] },
  add_fine: { title: "Add a class", fields: [["name", "text", "Name of the new class"]] },
  rename_fine: { title: "Rename a class", fields: [["name", "fine", "Class"], ["to", "text", "New name"]] },
  remove_fine: { title: "Remove a class", fields: [["name", "fine", "Class"]] },
};
