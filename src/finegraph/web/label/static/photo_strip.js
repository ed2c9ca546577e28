// The photos of a class: a click enlarges one. With p, or a button of the large view, labels are for a single photo.

import { button, el, fill } from "/shared/elements.js";
import { setAddress } from "./address.js";
import { say } from "./dialogs.js";
import { withKey } from "./keys.js";
import { openPhotos } from "./lightbox.js";
import { act, model, numbersOf } from "./model.js";
import { nameDifferences, nameElement } from "./name_differences.js";
import { choose, inWords } from "./values.js";

export class PhotoStrip {
  constructor(view) {
    Object.assign(this, { view, at: 0, active: false });
    this.root = el("div", { class: "photos" });
  }

  get photos() {
    return this.view.row?.photos ?? [];
  }

  /** The photo that is being labelled, if any. */
  get photo() {
    return this.active ? this.photos[this.at] : undefined;
  }

  draw() {
    // Photos are redrawn only if they have changed, as they would flicker.
    const labels = this.photos.map((photo) => [photo.number, this.label(photo)]);
    const shown = JSON.stringify([model.photos, this.view.row?.fine, this.at, this.active && this.view.kind?.name, labels]);
    if (shown === this.shown) return;
    this.shown = shown;
    this.root.hidden = !model.photos;
    this.root.classList.toggle("active", this.active);
    const pictures = this.photos.map((photo, index) => this.picture(photo, index));
    const large = this.photo && this.large(this.photo);
    const none = !this.photos.length && el("p", { class: "muted" }, "This class has no photos.");
    fill(this.root, large, el("div", { class: "thumbs" }, pictures, none));
    if (this.active) this.root.querySelector(".thumb.focus")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  label(photo) {
    return photo.cells[this.view.kind?.name]?.value ?? null;
  }

  picture(photo, index) {
    const label = this.label(photo);
    return el(
      "button",
      {
        type: "button",
        class: this.active && index === this.at ? "thumb focus" : "thumb",
        tabindex: "-1",
        title: photo.key,
        "aria-label": photo.key,
        onclick: () => (this.active ? this.open(index) : this.enlarge(index)),
      },
      el("img", { src: `/photos/${photo.number}/medium`, alt: "", loading: "lazy" }),
      label !== null && el("span", { class: "thumb-label" }, typeof label === "string" ? nameElement(label, nameDifferences(this.view.kind.labels)) : inWords(label)),
    );
  }

  large(photo) {
    const label = this.label(photo);
    return el(
      "figure",
      { class: "large" },
      el("img", { src: `/photos/${photo.number}/large`, alt: photo.key, onclick: () => this.enlarge() }),
      el(
        "figcaption",
        {},
        el("strong", {}, photo.key),
        el("span", {}, `${this.view.kind?.name}: ${label === null ? "as the class" : inWords(label)}`),
        el("span", { class: "muted" }, "You are labelling this photo."),
        button(withKey("Back to the class", "photos"), () => this.toggle()),
      ),
    );
  }

  /** Enlarge a photo; while it is enlarged, the address names it. */
  enlarge(index = this.at) {
    const { fine, photos } = this.view.row;
    if (!photos.length) return say("This class has no photos.");
    openPhotos(photos, index, {
      title: fine,
      seen: (at) => {
        this.at = at;
        setAddress("class", fine, photos[at].key);
      },
      closed: () => {
        setAddress("class", this.view.row.fine);
        this.draw();
      },
      label: (at) => this.open(at),
    });
  }

  /** Enlarge the photo that the address names. */
  enlargeNamed(name) {
    const index = this.photos.findIndex(({ number }) => number === this.view.row.photo);
    if (index < 0) return say(`This class has no photo “${name}”.`, { fault: true });
    this.enlarge(index);
  }

  open(index) {
    this.at = index;
    this.active = true;
    this.view.draw();
    this.view.showFocus();
  }

  /** Toggle between labelling the class and the focused photo. */
  toggle() {
    if (!this.active && !this.photos.length) return say("This class has no photos.");
    this.active = !this.active;
    this.view.draw();
    this.view.showFocus();
  }

  /** Return to labelling the class, before another one is shown. */
  leave() {
    Object.assign(this, { at: 0, active: false });
  }

  move(step) {
    const next = this.at + step;
    if (next >= 0 && next < this.photos.length) this.at = next;
    else if (step > 0) say("That was the last photo.");
    this.view.draw();
  }

  decide(label, more) {
    if (!this.photo) return;
    const kind = this.view.kind;
    const before = this.label(this.photo);
    this.send(kind.mode === "all" ? choose(kind, before, label, more) : label);
  }

  clear() {
    this.send(null);
  }

  send(value) {
    const { photo } = this;
    if (!photo) return;
    const kind = this.view.kind.name;
    const seen = photo.cells[kind]?.version ?? 0;
    act("/api/photo", { photo: photo.number, kind, value, seen, numbers: numbersOf(this.view.row.fine, kind, value) });
    photo.cells[kind] = { ...photo.cells[kind], value, version: seen };
    this.view.draw();
  }
}
