"""Ask the person at the counter what helps most, until the answer is sure.

    python examples/ask_questions.py MODEL photo.jpg

Type a label, or nothing if you do not know.
"""

import sys

import finegraph as fg

model = fg.load(sys.argv[1])
given: dict[str, object] = {}
asked: set[str] = set()
while True:
    prediction = model.predict(sys.argv[2], given=given or None, questions=len(model.graph.kinds))
    best = prediction.top[0]
    print(f"{best.label} ({best.probability:.1%})")
    question = next((one for one in prediction.questions if one.kind not in asked), None)
    if question is None or best.probability >= 1 - prediction.risk:
        break
    asked.add(question.kind)
    labels = model.graph.labels(question.kind)
    told = input(f"{question} [{' / '.join(labels[:8])}{' ...' if len(labels) > 8 else ''}] ").strip()
    if told in labels:
        given[question.kind] = told
print("sure:", prediction.sure)
